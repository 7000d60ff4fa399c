"""How the edge sends what is long."""

from turnstone.http.app import BYTES_AT_ONCE, PIECES_AT_ONCE, _some_of


def test_many_small_pieces_go_out_together_and_large_ones_a_few_at_a_time() -> None:
    small = iter([b"x"] * (PIECES_AT_ONCE + 1))
    assert [len(_some_of(small)), len(_some_of(small)), len(_some_of(small))] == [PIECES_AT_ONCE, 1, 0]
    size = BYTES_AT_ONCE // 2 + 1
    large = iter([b"x" * size] * 3)
    assert [len(_some_of(large)), len(_some_of(large)), len(_some_of(large))] == [2 * size, size, 0]
