"""Images and sequences under windows: convolutions and their gradients, pools, norms."""

from corpus import P, con, conv, cube, jax, jnp, lax, line, prog

IMAGE = (4, 16, 16, 8)


@prog([IMAGE, (3, 3, 8, 8)], [P("x", "y"), P()], P("x", "y"))
def conv_rows(x, w):
    return conv(x, w, window_strides=(1, 1), padding="SAME")


@prog([(2, 16, 16, 8), (3, 3, 8, 8)], [P("x", "y", "z"), P()], P("x", "y", "z"), cube)
def conv_plane(x, w):
    return conv(x, w, window_strides=(1, 1), padding="SAME")


@prog([IMAGE, (3, 3, 8, 16)], [P("x", None, None, "y"), P(None, None, "y")], P("x"))
def conv_channels(x, w):
    return conv(x, w, window_strides=(1, 1), padding="SAME")


@prog([IMAGE, (3, 3, 8, 16)], [P("x"), P(None, None, None, "y")], P("x", None, None, "y"))
def conv_features(x, w):
    return jax.nn.relu(conv(x, w, window_strides=(1, 1), padding="VALID"))


@prog([(4, 32, 16, 8), (3, 3, 8, 8)], [P("x", "y"), P()], P("x", "y"))
def conv_strided(x, w):
    return conv(x, w, window_strides=(2, 2), padding="SAME")


@prog([(4, 64, 8, 8), (7, 7, 8, 4)], [P("x", "y"), P()], P("x", "y"))
def conv_seven(x, w):
    return conv(x, w, window_strides=(2, 2), padding=((3, 3), (3, 3)))


@prog([(4, 32, 8, 8), (3, 3, 8, 8)], [P("x", "y"), P()], P("x", "y"))
def conv_dilated(x, w):
    return conv(x, w, window_strides=(1, 1), padding="SAME", rhs_dilation=(2, 2))


@prog([IMAGE, (3, 3, 8, 8)], [P("x", "y"), P()], P("x", "y"))
def conv_transposed(x, w):
    return lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@prog([IMAGE, (3, 3, 1, 8)], [P("x", None, None, "y"), P(None, None, None, "y")], P("x", None, None, "y"))
def conv_depthwise(x, w):
    return conv(x, w, window_strides=(1, 1), padding="SAME", feature_group_count=8)


@prog([IMAGE, (3, 3, 1, 8)], [P("x", "y"), P()], P("x", "y"))
def conv_depthwise_rows(x, w):
    return conv(x, w, window_strides=(1, 1), padding="SAME", feature_group_count=8)


@prog([IMAGE, (3, 3, 8, 8)], [P("x", "y"), P()], P())
def conv_kernel_gradient(x, w):
    return jax.grad(lambda w: (conv(x, w, window_strides=(1, 1), padding="SAME") ** 2).sum())(w)


@prog([IMAGE, (3, 3, 8, 8)], [P("x", "y"), P()], (P("x", "y"), P()))
def conv_both_gradients(x, w):
    def f(x, w):
        return (jax.nn.relu(conv(x, w, window_strides=(1, 1), padding="SAME")) ** 2).sum()

    return jax.grad(f, argnums=(0, 1))(x, w)


@prog([(4, 64, 8), (4, 8, 8)], [P("x", "y"), P()], P("x", "y"))
def conv_causal(x, w):
    return lax.conv_general_dilated(x, w, (1,), [(3, 0)], dimension_numbers=("NWC", "WIO", "NWC"))


@prog([(64, 8, 8), (5, 8, 8)], [P(None, "x"), P()], P(None, "x"), line)
def conv_line(x, w):
    return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


@prog([(4, 64, 8), (3, 8, 8)], [P("x", "y"), P()], P())
def conv_line_gradient(x, w):
    def f(w):
        y = lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
        return (y * y).mean()

    return jax.grad(f)(w)


@prog([(4, 18, 16, 8), (3, 3, 8, 8)], [P("x"), P()])
def conv_uneven(x, w):
    y = conv(con(x, "x", "y"), w, window_strides=(1, 1), padding="SAME")
    return con(jax.nn.relu(y), "x", "y").sum((1, 2))


@prog([IMAGE, (3, 3, 8, 8), (3, 3, 8, 8)], [P("x", "y"), P(), P()], P("x", "y"))
def residual_block(x, w, v):
    h = jax.nn.relu(conv(x, w, window_strides=(1, 1), padding="SAME"))
    return jax.nn.relu(x + conv(h, v, window_strides=(1, 1), padding="SAME"))


@prog([IMAGE], [P("x", "y")], P("x", "y"))
def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@prog([(4, 32, 8, 8)], [P("x", "y")], P("x", "y"))
def max_pool_overlapping(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


@prog([IMAGE], [P("x", "y")], P("x", "y"))
def average_pool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9


@prog([IMAGE], [P("x", "y")], P("x"))
def global_pool(x):
    return x.mean((1, 2))


@prog([(4, 32, 16, 8)], [P("x", "y")], P("x", "y"))
def max_pool_overlapping_gradient(x):
    def f(x):
        return (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2).sum()

    return jax.grad(f)(x)


@prog([(16, 8, 8, 16), (16,), (16,)], [P(("x", "y")), P(), P()], P(("x", "y")))
def batch_norm(x, g, b):
    m, v = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return jax.nn.relu((x - m) * lax.rsqrt(v + 1e-5) * g + b)


@prog([(4, 16, 16, 16), (16,)], [P("x", None, None, "y"), P("y")], P("x", None, None, "y"))
def batch_norm_channels(x, g):
    m, v = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - m) * lax.rsqrt(v + 1e-5) * g


@prog([IMAGE], [P("x", "y")], P("x", "y"))
def group_norm(x):
    g = x.reshape(4, 16, 16, 4, 2)
    m, v = g.mean((1, 2, 4), keepdims=True), g.var((1, 2, 4), keepdims=True)
    return ((g - m) * lax.rsqrt(v + 1e-5)).reshape(x.shape)


@prog([IMAGE], [P("x", "y")], P("x", "y"))
def upsample(x):
    return jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)


@prog([(4, 32, 16, 8)], [P("x", "y")], P("x", "y"))
def laplace(x):
    p = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return p[:, 2:, 1:-1] + p[:, :-2, 1:-1] + p[:, 1:-1, 2:] + p[:, 1:-1, :-2] - 4 * x


@prog([IMAGE], [P("x", "y")], P("x", "y"))
def patches(x):
    return x.reshape(4, 4, 4, 4, 4, 8).transpose(0, 1, 3, 2, 4, 5).reshape(4, 16, 128)
