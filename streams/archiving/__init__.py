"""What an archive is made of: blocks, segments, codecs; copies from and to Kafka."""
