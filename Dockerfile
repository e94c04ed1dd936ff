# One image for every command: docker run glimpse join, docker run glimpse learn, …
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/glimpse
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY learner learner
COPY schemas schemas
COPY streams streams
RUN /opt/glimpse/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt .

FROM python:3.11-slim
COPY --from=build /opt/glimpse /opt/glimpse
ENV PATH=/opt/glimpse/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OPENBLAS_NUM_THREADS=1
WORKDIR /tmp
# no home and no rights: the jobs only talk to Kafka and Redis
USER 10001:10001
ENTRYPOINT ["glimpse"]
CMD ["--help"]
