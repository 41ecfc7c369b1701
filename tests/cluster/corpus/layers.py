"""Layers and their gradients: tensor, sequence, expert and data parallel, FSDP, vocabularies, caches."""

from corpus import P, con, cube, ints, jax, jnp, lax, line, prog

WEIGHTS = [(16, 32), (32, 16)]


def mlp(x, w, v):
    return jax.nn.relu(x @ w) @ v


def gradients(x, w, v):
    return jax.grad(lambda w, v: (mlp(x, w, v) ** 2).sum(), argnums=(0, 1))(w, v)


def attend(q, k, v):
    s = jnp.einsum("bshd,bthd->bhst", q, k) / 3
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(s, -1), v)


def rms(x, g):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


@prog([(8, 16), *WEIGHTS], [P("x"), P(None, "y"), P("y", None)], P("x", None))
def tensor(x, w, v):
    return mlp(x, w, v)


@prog([(8, 16), *WEIGHTS], [P("x"), P(None, "y"), P("y", None)], (P(None, "y"), P("y", None)))
def tensor_gradients(x, w, v):
    return gradients(x, w, v)


@prog([(64, 16), *WEIGHTS], [P(("x", "y")), P("y"), P("y")], (P("y"), P("y")))
def fsdp(x, w, v):
    return gradients(x, w, v)


@prog([(64, 16), *WEIGHTS], [P(("x", "y")), P(), P()], (P(), P()))
def data(x, w, v):
    return gradients(x, w, v)


@prog([(64, 16), *WEIGHTS], [P("x"), P("x"), P("x")], (P("x"), P("x")), line)
def fsdp_line(x, w, v):
    return gradients(x, w, v)


@prog([(16, 16), *WEIGHTS], [P(("x", "y")), P("y", "z"), P("z", "y")], (P("y", "z"), P("z", "y")), cube)
def fsdp_tensor(x, w, v):
    return gradients(x, w, v)


@prog([(4, 8, 16), *WEIGHTS], [P("x"), P(None, "y"), P("y")])
def sequence(x, w, v):
    h = con(x, "x", "y", None)
    h = con(h, "x", None, None) @ w
    return con(jax.nn.relu(h) @ v, "x", "y", None)


@prog([(4, 8, 16), (16,), *WEIGHTS], [P("x", "y"), P(), P(None, "y"), P("y")], (P(), P(None, "y"), P("y")))
def sequence_gradients(x, g, w, v):
    def f(g, w, v):
        h = con(rms(x, g), "x", None, None)
        return ((x + con(jax.nn.silu(h @ w) @ v, "x", "y", None)) ** 2).sum()

    return jax.grad(f, argnums=(0, 1, 2))(g, w, v)


@prog([(4, 8, 32), *[(32, 32)] * 4], [P("x"), *[P(None, "y")] * 3, P("y", None)], P("x", None, None))
def heads(x, q, k, v, o):
    def split(w):
        return con((x @ w).reshape(x.shape[0], x.shape[1], 8, 4), "x", None, "y", None)

    return attend(split(q), split(k), split(v)).reshape(x.shape) @ o


@prog([(4, 8, 32), *[(32, 32)] * 4], [P("x"), *[P(None, "y")] * 3, P("y")], (P(None, "y"), P("y")))
def heads_gradients(x, q, k, v, o):
    def f(q, o):
        def split(w):
            return (x @ w).reshape(4, 8, 8, 4)

        return (attend(split(q), split(k), split(v)).reshape(x.shape) @ o).sum()

    return jax.grad(f, argnums=(0, 1))(q, o)


@prog([(4, 8, 32), (32, 32), (32, 16), (32, 16)], [P("x"), P(None, "y"), P(None, "y"), P(None, "y")], P("x", None, "y"))
def grouped_heads(x, q, k, v):
    a, b, c = (x @ q).reshape(4, 8, 4, 2, 4), (x @ k).reshape(4, 8, 4, 4), (x @ v).reshape(4, 8, 4, 4)
    s = jax.nn.softmax(jnp.einsum("bsghd,btgd->bghst", a, b), -1)
    return jnp.einsum("bghst,btgd->bsghd", s, c).reshape(4, 8, 32)


@prog([(4, 8, 32), (32, 96)], [P("x"), P(None, "y")], P("x", None, "y"))
def qkv_together(x, w):
    q, k, v = jnp.moveaxis((x @ w).reshape(4, 8, 8, 3, 4), 3, 0)
    return attend(q, k, v).reshape(4, 8, 32)


@prog([(4, 32, 4, 8)] * 3, [P("x", "y")] * 3, P("x", "y"))
def ulysses(q, k, v):
    q, k, v = (con(t, "x", None, "y", None) for t in (q, k, v))
    return con(attend(q, k, v), "x", "y", None, None)


@prog([(8, 4, 16), (8, 16, 32), (8, 32, 16)], [P("y"), P("y", None, "x"), P("y", "x")], P("y"))
def experts(x, up, down):
    return jnp.einsum("ecf,efd->ecd", jnp.tanh(jnp.einsum("ecd,edf->ecf", x, up)), down)


@prog([(32, 16), (16, 4), (4, 16, 32)], [P("x"), P(), P("y")], P("x"))
def routed(x, gate, up):
    g = jax.nn.softmax(x @ gate, -1)
    sent = con(jnp.einsum("td,te->etd", x, g), "y", "x", None)
    return jnp.einsum("etf,te->tf", con(jnp.einsum("etd,edf->etf", sent, up), "y", "x", None), g)


@prog([(32, 16), (16, 8), (8, 16, 16)], [P(("x", "y")), P(), P(("x", "y"))], P(("x", "y")))
def capacity(x, gate, w):
    top, place = lax.top_k(x @ gate, 2)
    hot = jax.nn.one_hot(place, 8)
    at = (jnp.cumsum(hot.reshape(64, 8), 0) - 1).reshape(32, 2, 8)
    kept = jax.nn.one_hot(jnp.where(hot > 0, at, -1).max(-1).astype(int), 12)
    sent = jnp.einsum("tke,tkc->tec", hot, kept)
    h = con(jnp.einsum("tec,td->ecd", sent, x), ("x", "y"), None, None)
    h = con(jnp.einsum("ecd,edf->ecf", h, w), ("x", "y"), None, None)
    return jnp.einsum("ecf,tec,tk->tf", h, sent, jax.nn.softmax(top, -1))


@prog([(4, 8), (32, 16)], [P("x"), P("y")], P("x", None, None))
def vocabulary(i, table):
    return table[i.astype(jnp.int32)]


@prog([(4, 8), (32, 16), (4, 8, 16)], [P("x"), P("y"), P("x")], P("y"))
def vocabulary_gradient(i, table, g):
    return jax.grad(lambda t: (t[ints(i, 32)] * g).sum())(table)


@prog([(4, 8), (32, 16)], [P("x", "y"), P(None, "y")], P("x", None, "y"))
def embedding_width(i, table):
    return jnp.take(table, ints(i, 32), axis=0)


@prog([(16, 16), (32, 16), (16, 32)], [P("x"), P("y"), P("x", "y")], P())
def head(x, table, chosen):
    return -(jax.nn.log_softmax(x @ table.T, axis=-1) * chosen).sum()


@prog([(4, 8, 32), (4, 8)], [P("x", None, "y"), P("x")], P("x", None, "y"))
def loss_gradient(logits, i):
    hot = jax.nn.one_hot(ints(i, 32), 32)
    return jax.grad(lambda t: -(jax.nn.log_softmax(t, -1) * hot).sum(-1).mean())(logits)


@prog([(4, 32, 4, 8), (4, 4, 8), (4,)], [P("x", None, "y"), P("x", "y"), P("x")], P("x", None, "y"))
def cache_scatter(c, n, at):
    return c.at[jnp.arange(4), ints(at, 32)].set(n)


@prog([(4, 32, 4, 8), (4, 2, 4, 8), (1,)], [P("x", None, "y"), P("x", None, "y"), P()], P("x", None, "y"))
def cache_heads(c, n, at):
    return lax.dynamic_update_slice_in_dim(c, n, ints(at, 30)[0], 1)


@prog([(8, 1, 8, 4), (8, 32, 8, 4), (8, 32, 8, 4), (8, 1, 8, 4), (1,)],
      [P("x", None, "y"), P("x", None, "y"), P("x", None, "y"), P("x", None, "y"), P()],
      (P("x", None, "y"), P("x", None, "y")))  # fmt: skip
def decode_step(q, k, v, n, at):
    p = ints(at, 31)[0]
    k = lax.dynamic_update_slice(k, n, (0, p, 0, 0))
    s = jnp.einsum("bshd,bthd->bhst", q, k)
    s = jnp.where(jnp.arange(32) <= p, s, -1e9)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(s, -1), v), k


@prog([(8, 16, 32), (32,), (32,)], [P("x", None, "y"), P("y"), P("y")], P("x", None, "y"))
def layer_norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


@prog([(8, 16, 32), (32,)], [P("x", "y"), P()], (P("x", "y"), P()))
def rms_gradients(x, g):
    return jax.grad(lambda x, g: (rms(x, g) ** 3).sum(), argnums=(0, 1))(x, g)


@prog([(4, 32, 8, 8)], [P("x", "y")], P("x", "y"))
def rotary(x):
    angle = jnp.arange(32.0)[:, None] * (0.5 ** jnp.arange(4.0))
    a, b = jnp.split(x, 2, -1)
    c, s = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


@prog([(8, 8, 16), (16, 4, 8), (8, 4, 8)], [P("x", None, "y"), P("y"), P("x", None, "y")], P("x"))
def contracted_axes(a, b, c):
    return jnp.einsum("bsd,dhe,she->bsh", a, b, c)


@prog([(16, 32), (32, 16), (16, 8)], [P("x", "y"), P("y", "x"), P("x")], P("y"))
def chain(a, b, c):
    return a @ (b @ c)


@prog([(32, 16), (32, 16)], [P("x", "y"), P("x", "y")], P())
def mean_square(a, b):
    return ((a - b) ** 2).mean()


@prog([(16, 32), (16, 32), (16, 32), (16, 32)], [P("x", "y")] * 4, (P("x", "y"),) * 3)
def adam(w, g, m, v):
    norm = jnp.sqrt((g * g).sum())
    g = g / jnp.maximum(norm, 1)
    m, v = 0.9 * m + 0.1 * g, 0.99 * jnp.abs(v) + 0.01 * g * g
    return w - 0.1 * m / (jnp.sqrt(v) + 1e-3), m, v


@prog([(8, 16), (16, 32), (32, 16)], [P("x"), P("z", "y"), P("y", "z")], P("x", "z"), cube)
def tensor_both(x, w, v):
    return jnp.tanh(x @ w) @ v
