"""Contexts made of items and users, and the items that are held."""

import numpy as np
import pytest

from learner import C2Ucb, Samples
from learner.encoder import Encoder
from streams.rank import Catalogue, CatalogueError, Recipe
from streams.rank.catalogue import NotHeld
from streams.rank.catalogue_file import catalogue_of
from streams.rank.choice import choose
from streams.rank.recipe import PARTS, RecipeError
from streams.rank.requests import RankRequest
from streams.settings import Bucket


def by_hand(parts, item, user):
    """The obvious twin of a recipe, for one item."""
    made = {
        "constant": [1.0],
        "item": list(item),
        "user": list(user),
        "products": [one * other for one in item for other in user],
    }
    return [number for part in parts for number in made[part]]


@pytest.mark.parametrize("parts", [("item",), ("user", "constant"), ("products", "item"), PARTS], ids=str)
def test_a_context_is_what_its_recipe_says(parts):
    random = np.random.default_rng(0)
    items, user, recipe = random.uniform(-1, 1, (5, 3)), random.uniform(-1, 1, 2), Recipe(parts)
    made = recipe.contexts(np.hstack([np.ones((5, 1)), items]), user)
    assert made.shape == (5, recipe.dim(3, 2))
    assert np.array_equal(made, [by_hand(parts, item, user) for item in items])


def test_items_that_are_held_rank_as_their_contexts_would():
    random = np.random.default_rng(1)
    items, user = random.uniform(-1, 1, (5000, 3)), random.uniform(-1, 1, 2)
    shop = Catalogue(np.arange(5000), items, Recipe(PARTS), users=["u"], user_features=[user])
    model = C2Ucb(dim=shop.dim, positions=12, alpha=0.7, context_scale=2.0)
    contexts = shop.recipe.contexts(shop.held, shop.user("u"))
    shown = contexts[: 12 * 50].reshape(50, 12, -1)
    model.learn(Samples.from_clicks(shown, random.random((50, 12)) < 0.2))
    mapping = shop.recipe.matrix(shop.item_columns, shop.user("u"))
    for explore in (0.0, 0.3, 1.0):
        best = model.rank_mapped(shop.held, mapping, norms=shop.norms, size=12, explore=explore)
        assert np.array_equal(best, model.rank(contexts, size=12, explore=explore))


def random_encoder(user_columns, item_columns, *, hidden=6, code=4):
    random, columns = np.random.default_rng(3), user_columns + item_columns
    return Encoder(
        user_columns,
        low=np.full(columns, -2.0),
        high=np.full(columns, 3.0),
        median=np.full(columns, 0.5),
        first=random.normal(size=(columns, hidden)),
        first_bias=random.normal(size=hidden),
        second=random.normal(size=(hidden, code)),
        second_bias=random.normal(size=code),
        norm=np.array(9.0),
    )


def test_an_encoder_makes_the_contexts_of_held_items():
    random, encoder = np.random.default_rng(5), random_encoder(2, 3)
    items, user = random.uniform(-2, 3, (300, 3)), random.uniform(-2, 3, 2).astype(np.float32)
    recipe = Recipe(["code"])
    shop = Catalogue(np.arange(300), items, recipe, users=["u"], user_features=[user], encoder=encoder)
    whole = np.hstack([np.tile(user, (300, 1)), shop.held[:, 1:]])
    codes = encoder.encode(whole).values.astype(np.float64)
    bucket = Bucket("b", dim=4, positions=12, alpha=0.5)
    model = bucket.model()
    model.learn(Samples.from_clicks(codes[:240].reshape(20, 12, 4), random.random((20, 12)) < 0.3))
    shown = choose(RankRequest("u"), bucket, model, shop)
    np.testing.assert_allclose(shown.contexts, codes[shown.items], atol=1e-6)
    assert shown.items.tolist() == model.rank(codes, size=12).tolist()
    some = choose(RankRequest("u", items=np.arange(100, 200)), bucket, model, shop)
    assert some.items.tolist() == (100 + model.rank(codes[100:200], size=12)).tolist()
    stranger = choose(RankRequest("nobody"), bucket, model, shop)
    median = encoder.encode(np.hstack([np.full((300, 2), 0.5), shop.held[:, 1:]])).values
    np.testing.assert_allclose(stranger.contexts, median[stranger.items], atol=1e-6)
    assert not stranger.user_known
    assert shop.recipe_sha256 == encoder.sha256()
    with pytest.raises(CatalogueError, match="takes 2 features of a user and 3 of an item; there are 0 and 3"):
        Catalogue(np.arange(300), items, recipe, encoder=encoder)
    with pytest.raises(CatalogueError, match="needs an encoder"):
        Catalogue(np.arange(300), items, recipe, users=["u"], user_features=[user])


def test_recipes_that_name_something_else_are_refused():
    for parts in (["items"], [], ["item", "item"]):
        with pytest.raises(RecipeError, match="constant, item, user, products"):
            Recipe(parts)


LINES = [
    '{"recipe": ["constant", "item", "user"]}',
    '{"item": 7, "features": [0.5, 0.25], "tags": {"kind": "hat", "new": ["yes", "very"]}}',
    '{"item": 9, "features": [0.1, 0.25]}',
    '{"user": "u1", "features": [1.0]}',
    '{"item": 9, "features": [0.75, 0.25], "tags": {"kind": "shoe"}}',
]


def test_a_catalogue_is_read_from_lines_and_the_last_of_an_item_counts():
    shop = catalogue_of(LINES)
    assert shop.items.tolist() == [7, 9]
    assert shop.held.tolist() == [[1, 0.5, 0.25], [1, 0.75, 0.25]]
    assert shop.dim == 4
    assert shop.user("u1").tolist() == [1.0]
    assert shop.user("u2") is None
    assert shop.rows(tags={"kind": ["hat", "shoe"], "new": ["very"]}, without=[]).tolist() == [0]
    assert shop.rows(tags={"kind": ["coat"]}, without=[]).tolist() == []
    with pytest.raises(NotHeld, match="no tag 'size'; it has kind, new"):
        shop.rows(tags={"size": ["1"]}, without=[])
    with pytest.raises(NotHeld, match="no item 8"):
        shop.rows_of([7, 8])


BAD = {
    "no recipe": (LINES[1:2], "no line says the recipe"),
    "another line": ([*LINES, '{"shelf": 3}'], "line 6: this is nothing of a catalogue"),
    "ragged": ([*LINES, '{"item": 1, "features": [1]}'], "features must be as many numbers"),
    "not a number": ([*LINES, '{"item": 1, "features": [1, NaN]}'], "must be finite, row 2"),
    "no items": (LINES[:1], "features must be one row for each of 0|items must be one row"),
}


@pytest.mark.parametrize("lines, words", BAD.values(), ids=BAD)
def test_a_catalogue_that_cannot_be_used_says_why(lines, words):
    with pytest.raises(CatalogueError, match=words):
        catalogue_of(lines)


def test_the_version_tells_contents_apart():
    assert catalogue_of(LINES).version == catalogue_of(LINES).version
    assert catalogue_of(LINES).version != catalogue_of([*LINES, '{"user": "u2", "features": [0.5]}']).version
    assert catalogue_of(LINES).recipe_sha256 == catalogue_of(LINES[:4]).recipe_sha256
