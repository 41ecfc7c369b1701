"""Loops, branches, repeated layers, mapped functions, and regions of a device's own parts."""

from corpus import P, con, ints, jax, jnp, lax, line, mapped, prog


@prog([(8, 16), (4, 16, 32), (4, 32, 16)], [P("x"), P(None, None, "y"), P(None, "y")], P("x"))
def scan_tensor(x, w, v):
    return lax.scan(lambda c, p: (c + jax.nn.relu(c @ p[0]) @ p[1] / 40, None), x, (w, v))[0]


@prog([(8, 16), (4, 16, 16)], [P("x"), P(None, None, "y")], (P("x"), P(None, "x")))
def scan_outputs(x, w):
    def layer(c, p):
        c = jnp.tanh(c @ p)
        return c, c.sum(1)

    return lax.scan(layer, x, w)


@prog([(16, 8, 16), (8, 16), (16, 16)], [P(None, "x"), P("x", "y"), P(None, "y")], P(None, "x", "y"))
def recurrent(x, h, w):
    def step(h, t):
        h = jnp.tanh(h @ w / 16 + t)
        return h, h

    return lax.scan(step, h, x)[1]


@prog([(8, 16), (16, 16)], [P("x", "y"), P(None, "y")], P("x", "y"))
def power(x, w):
    return lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w), x)


@prog([(8, 32)], [P("x", "y")], P("x", "y"))
def until(x):
    return lax.while_loop(lambda c: jnp.abs(c).sum() > 50, lambda c: c * 0.5, x)


@prog([(8, 32)], [P("x", "y")], P("x", "y"))
def heat(x):
    def step(i, c):
        return 0.5 * c + 0.25 * (jnp.roll(c, 1, 1) + jnp.roll(c, -1, 1))

    return lax.fori_loop(0, 4, step, x)


@prog([(8, 16), (16, 16), (16, 16)], [P("x"), P(None, "y"), P("y")], P("x"))
def cond_layers(x, w, v):
    return lax.cond(x[0, 0] > 0, lambda c: c @ w @ v, lambda c: jnp.tanh(c) * 2, x)


@prog([(8, 16), (1,)], [P("x", "y"), P()], P("x", "y"))
def switched(x, i):
    return lax.switch(ints(i, 3)[0], [lambda c: c + 1, lambda c: c[:, ::-1], lambda c: c - c.mean(1, keepdims=True)], x)


@prog([(8, 16), (4, 16, 32), (4, 32, 16)], [P("x"), P(None, None, "y"), P(None, "y")],
      (P(None, None, "y"), P(None, "y")))  # fmt: skip
def scan_gradients(x, w, v):
    def f(w, v):
        return (lax.scan(lambda c, p: (c + jnp.tanh(c @ p[0]) @ p[1] / 9, None), x, (w, v))[0] ** 2).sum()

    return jax.grad(f, argnums=(0, 1))(w, v)


@prog([(8, 16), (16, 32), (32, 16)], [P("x"), P(None, "y"), P("y")], (P(None, "y"), P("y")))
def remat(x, w, v):
    f = jax.checkpoint(lambda w, v: jnp.tanh(jnp.tanh(x @ w) @ v))
    return jax.grad(lambda w, v: (f(w, v) ** 2).sum(), argnums=(0, 1))(w, v)


@prog([(8, 4, 16), (16, 8)], [P("x", "y"), P()], P("x", "y"))
def vmapped(x, w):
    return jax.vmap(lambda row: jax.nn.softmax(row @ w))(x)


@prog([(8, 16), (16, 8)], [P(("x", "y")), P()], P(("x", "y")))
def gradient_each(x, w):
    return jax.vmap(jax.grad(lambda w, row: (jnp.tanh(row @ w) ** 2).sum()), in_axes=(None, 0))(w, x)


@prog([(4, 4, 16), (4, 16, 16)], [P("y", "x"), P("y")], P("y", "x"))
def stages(x, w):
    def tick(i, c):
        return jnp.roll(con(jnp.tanh(jnp.einsum("sbd,sdf->sbf", c, w)), "y", "x", None), 1, 0)

    return lax.fori_loop(0, 4, tick, x)


@prog([(16, 8)], [P("x", "y")], P("x", "y"), together=True)
def own_sums(x):
    return mapped(lambda t: t - lax.pmean(t, "y"), P("x", "y"), P("x", "y"))(x)


@prog([(16, 32), (32, 16)], [P("x", "y"), P("y")], P("x"), together=True)
def own_product(x, w):
    return mapped(lambda a, b: lax.psum(a @ b, "y"), (P("x", "y"), P("y")), P("x"))(x, w)


@prog([(16, 32), (32, 16)], [P("x", "y"), P("y")], P("x", "y"), together=True)
def own_scatter(x, w):
    def f(a, b):
        return lax.psum_scatter(a @ b, "y", scatter_dimension=1, tiled=True)

    return mapped(f, (P("x", "y"), P("y")), P("x", "y"))(x, w)


@prog([(64, 8)], [P("x")], P("x"), line, together=True)
def own_halo(x):
    def f(t):
        left = lax.ppermute(t[-1:], "x", [(i, i + 1) for i in range(7)])
        return t + jnp.concatenate([left, t[:-1]])

    return mapped(f, P("x"), P("x"), line)(x)


@prog([(32, 16), (16, 32)], [P("y", "x"), P("y")], P("y"), together=True)
def own_ring_product(x, w):
    def f(a, b):
        me, n = lax.axis_index("y"), b.shape[0]

        def step(i, c):
            total, b = c
            part = lax.dynamic_slice_in_dim(a, (me - i) % 4 * n, n, 1)
            return total + part @ b, lax.ppermute(b, "y", [(j, (j + 1) % 4) for j in range(4)])

        return lax.fori_loop(0, 4, step, (jnp.zeros((8, 32)), b))[0]

    return mapped(f, (P("y"), P("y")), P("y"), check_vma=False)(x, w)


@prog([(16, 16, 8), (8, 8)], [P("x", "y"), P()], P("x", "y"), together=True)
def own_then_free(x, w):
    h = mapped(lambda t: lax.all_to_all(t, "y", 0, 1, tiled=True), P(None, "y"), P("y"), axis_names={"y"})(x)
    return con(jnp.tanh(h @ w), "x", "y", None) * 2


@prog([(8, 16)], [P("x", "y")], P("x", "y"), together=True)
def own_index(x):
    def f(t):
        return t + lax.axis_index("x").astype(t.dtype) * 10 + lax.axis_index("y").astype(t.dtype)

    return mapped(f, P("x", "y"), P("x", "y"))(x)


@prog([(8, 16)], [P("x", "y")], P("x"), together=True)
def own_gather(x):
    return mapped(lambda t: lax.all_gather(t, "y", axis=1, tiled=True), P("x", "y"), P("x"), check_vma=False)(x)


@prog([(8, 16)], [P("x", "y")], P("x"), together=True)
def own_branch(x):
    def f(t):
        total = lax.psum(t.sum(), ("x", "y"))
        return lax.cond(total > 0, lambda v: lax.pmax(v, "y"), lambda v: lax.pmin(v, "y"), t)

    return mapped(f, P("x", "y"), P("x", None), check_vma=False)(x)


@prog([(8, 16)], [P("x", "y")], P(None, "y"), together=True)
def own_axis(x):
    return mapped(lambda t: lax.psum(jnp.tanh(t), "x"), P("x"), P(), axis_names={"x"})(x)


@prog([(8, 16), (16, 32)], [P("y", "x"), P("x")], P("y"), together=True)
def own_axis_product(x, w):
    return mapped(lambda a, b: lax.psum(jnp.tanh(a) @ b, "x"), (P(None, "x"), P("x")), P(), axis_names={"x"})(x, w)
