"""Elements that change places: rotations, joins, pads, strides, orders, running sums, reshapes, gathers."""

from corpus import P, con, cube, ints, jax, jnp, lax, line, prog

ROWS = (8, 32)


@prog([ROWS], [P("x", "y")], P("x", "y"))
def roll(x):
    return jnp.roll(x, 1, 1)


@prog([ROWS], [P("x", "y")])
def roll_unnamed(x):
    return jnp.roll(x, 1, 1)


@prog([ROWS], [P("x", "y")])
def roll_between(x):
    return (jnp.roll(x * 2, 3, 1) - jnp.roll(x, -1, 1)) * x


@prog([(16, 16)], [P("x", "y")])
def roll_both(x):
    return jnp.roll(x, (1, -2), (0, 1))


@prog([(64, 4)], [P("x")], None, line)
def roll_line(x):
    return jnp.roll(x, 5, 0) + 1


@prog([(8, 32)], [P("x", "y")])
def neighbours(x):
    return 0.5 * x + 0.25 * (jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1))


@prog([ROWS], [P("x", "y")])
def sort_unnamed(x):
    return jnp.sort(x, 1) * 2


@prog([ROWS], [P("x", "y")])
def sort_rows(x):
    return jnp.sort(x, 0)


@prog([ROWS], [P("x", "y")])
def argsort(x):
    return jnp.argsort(x, 1)


@prog([(16, 32)], [P("x", "y")], (P("x"), P("x")))
def top_few(x):
    return tuple(lax.top_k(x, 4))


@prog([(16, 32)], [P("x", "y")], P("x"))
def best(x):
    return x.argmax(1)


@prog([(16, 32)], [P("x", "y")])
def least_and_where(x):
    return x.min(1), x.argmin(1)


@prog([ROWS], [P("x", "y")])
def cumsum_unnamed(x):
    return jnp.cumsum(x, 1) * 2


@prog([ROWS], [P("x", "y")], P("x", "y"))
def cumprod(x):
    return jnp.cumprod(x / 4, 1)


@prog([ROWS], [P("x", "y")])
def cumlogsumexp(x):
    return lax.cumlogsumexp(x, 1)


@prog([ROWS], [P("x", "y")], P("x", "y"))
def cummax_back(x):
    return lax.cummax(x, 1, reverse=True)


@prog([(8, 32)], [P("x", "y")])
def cumsum_gradient(x):
    return jax.grad(lambda x: (jnp.cumsum(x, 1) ** 2).sum())(x)


@prog([ROWS, ROWS], [P("x", "y"), P("x", "y")])
def concat_unnamed(a, b):
    return jnp.concatenate([a, b], 1) * 2


@prog([ROWS, ROWS], [P("x", "y"), P("x", "y")], P("x", "y"))
def stacked(a, b):
    return jnp.stack([a, b], 2)


@prog([ROWS, (8, 4)], [P("x", "y"), P("x")], P("x", "y"))
def appended(a, b):
    return jnp.concatenate([a[:, 4:], b], 1)


@prog([ROWS], [P("x", "y")], P("x", "y"))
def padded_ends(x):
    return jnp.pad(x, ((0, 0), (4, 4)), constant_values=2)


@prog([ROWS], [P("x", "y")], P("x", "y"))
def padded_edges(x):
    return jnp.pad(x, ((0, 0), (2, 2)), mode="edge")


@prog([ROWS], [P("x", "y")], P("x", "y"))
def holes(x):
    return lax.pad(x, 0.0, [(0, 0, 0), (0, 1, 1)])


@prog([(8, 64)], [P("x", "y")], P("x", "y"))
def every_other(x):
    return x[:, ::2] - x[:, 1::2]


@prog([(8, 64)], [P("x", "y")])
def middle(x):
    return x[:, 8:40] * 2


@prog([ROWS], [P("x", "y")])
def differences(x):
    return x[:, 1:] - x[:, :-1]


@prog([(32, 32)], [P("x", "y")])
def flipped(x):
    return jnp.flip(x, (0, 1))


@prog([(16, 32)], [P("x", "y")], P("x", "y"))
def transposed(x):
    return x.T.reshape(16, 32)


@prog([(16, 32)], [P("x", "y")], P("y", "x"))
def turned(x):
    return x * 2


@prog([(8, 16, 32)], [P(None, "x", "y")], P("x", None, "y"))
def exchanged(x):
    return jnp.tanh(x)


@prog([(8, 8, 16)], [P("x", "y")], P(("x", "y")))
def merged(x):
    return x.reshape(64, 16)


@prog([(64, 16)], [P(("x", "y"))])
def parted(x):
    return x.reshape(8, 8, 16) * 2


@prog([(8, 8, 16)], [P("x", None, "y")])
def merged_minor(x):
    return x.reshape(8, 128) + 1


@prog([(8, 8, 16)], [P(None, "y", "x")])
def merged_inner(x):
    return x.reshape(64, 16).sum(1)


@prog([(30, 12)], [P("x")])
def uneven_rows(x):
    y = con(jnp.tanh(x), "y", None)
    return (y - y.mean(0)).max(0), con(y.sum(1), "y")


@prog([(10, 12), (12, 6)], [P("x"), P()])
def uneven_product(x, w):
    return con(con(x, "y", "x") @ con(w, "x", "y"), None, "y")


@prog([(30, 16)], [P("x")])
def uneven_turned(x):
    return con(con(x * 2, "y", None), None, "y") + 1


@prog([(32, 16), (16, 1)], [P("x", "y"), P()], P(None, "y"))
def gather_columns(t, i):
    return t[ints(i, 32)[:, 0]]


@prog([(64, 16), (64, 1)], [P(("x", "y")), P(("x", "y"))])
def gather_rows(t, i):
    return t[ints(i, 64)[:, 0]]


@prog([(8, 32, 4), (8, 3)], [P("x", "y"), P("x")], P("x"))
def gather_batch(t, i):
    return jnp.take_along_axis(t, ints(i, 32)[..., None], 1)


@prog([(16, 32), (16, 4)], [P("x", "y"), P("x")], P("x", "y"))
def scatter_batch(t, i):
    return t.at[jnp.arange(16)[:, None], ints(i, 32)].add(1.0)


@prog([(32, 16), (8, 1), (8, 16)], [P("x", "y"), P(), P(None, "y")], P("x", "y"))
def scatter_columns(t, i, u):
    return t.at[ints(i, 32)[:, 0]].max(u)


@prog([(64, 8), (64, 1)], [P("x"), P("x")], None, line)
def histogram(v, i):
    return jnp.zeros((16, 8)).at[ints(i, 16)[:, 0]].add(v)


@prog([(8, 32), (1,)], [P("x", "y"), P()])
def sliced_where(x, at):
    return lax.dynamic_slice_in_dim(x, ints(at, 28)[0], 4, 1)


@prog([(8, 16, 16)], [P("x", "y")], P("x", "y"))
def lower_triangle(x):
    return jnp.tril(x) + jnp.triu(x, 1) * 2


@prog([(16, 16)], [P("x", "y")])
def diagonal(x):
    return jnp.diagonal(x) + jnp.trace(x)


@prog([(16, 32)], [P("x", "y")])
def whole_numbers(x):
    i = ints(x, 100)
    return (i.sum(1), i.max(0), jnp.bitwise_xor(i, 5) % 7)


@prog([(16, 8), (16, 8)], [P("x", "y"), P("x", "y")], P("x", "y"))
def outer(a, b):
    return jnp.einsum("ia,ib->iab", a, b).reshape(16, 64)


@prog([(8, 16, 8)], [P("x", "y", "z")], P("z", "y", "x"), cube)
def three_axes(x):
    return jnp.swapaxes(x, 0, 2) * 2


@prog([(16, 32)], [P("x", "y")], P("x", None))
def variance(x):
    return (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1)


@prog([(8, 32)], [P("x", "y")], P("x", "y"))
def softmax_divided(x):
    return jax.nn.softmax(x, 1) * 3


@prog([(8, 32)], [P("x", "y")])
def fourier(x):
    return jnp.abs(jnp.fft.fft(x, axis=0))


@prog([(16, 16, 4)], [P("x", "y")], P("y", "x"))
def swapped(x):
    return jnp.swapaxes(x, 0, 1)


@prog([(8, 8), (8, 8)], [P("x", "y"), P("y", "x")])
def kronecker(a, b):
    return jnp.kron(a, b)


@prog([(8, 16)], [P("x", "y")])
def tiled(x):
    return jnp.tile(x, (1, 3))


@prog([(8, 32)], [P("x", "y")])
def repeated(x):
    return jnp.repeat(x, 3, 0)
