"""Programs that name places of divided axes: masks, pools, joins, orders, indices."""

from corpus import P, con, conv, ints, jax, jnp, lax, mapped, prog


@prog([(2, 32, 4, 8)] * 3, [P("x", "y")] * 3, P("x", "y"))
def causal_tril(q, k, v):
    s = jnp.einsum("bshd,bthd->bhst", q, k) / 3
    s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -1e9)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(s, -1), v)


@prog([(2, 32, 4, 8)] * 3, [P("x", "y")] * 3, P("x", "y"))
def causal_dpa(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@prog([(4, 16, 16, 8)], [P("x", "y")], None)
def maxpool_grad(x):
    def f(x):
        return (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()

    return jax.grad(f)(x)


@prog([(4, 16, 16, 8)], [P("x", "y")], P("x", "y"))
def avgpool_grad(x):
    def f(x):
        return (lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()

    return jax.grad(f)(x)


@prog([(8, 16), (8, 16)], [P("y"), P("y")], P("y"))
def concat_rows(a, b):
    return jnp.concatenate([a * 2, b], 0) + 1


@prog([(4, 32, 16)], [P("x", None, "y")], P("x", None, "y"))
def rope_width(x):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([-b, a], -1)


@prog([(8, 32)], [P("x", "y")], P("x", "y"))
def reverse(x):
    return x[:, ::-1] * 2


@prog([(8, 32)], [P("x", "y")], P("x", "y"))
def cumsum(x):
    return jnp.cumsum(x, 1)


@prog([(8, 32)], [P("x", "y")], P("x", "y"))
def sort(x):
    return jnp.sort(x, 1)


@prog([(16, 32), (64, 32)], [P(("x",)), P("y")], P("x"))
def vocab_loss(h, table):
    logits = h @ table.T
    ids = ints(h[:, 0], 64)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), ids[:, None], -1)[:, 0]


@prog([(16, 8), (64, 32), (32, 64)], [P("x"), P("y"), P(None, "y")], None)
def vocab_loss_grad(x, table, out):
    ids = ints(x, 64)

    def f(table, out):
        h = table[ids]
        left = jax.nn.log_softmax(con(h @ out, "x", None, "y"), -1)
        return -jnp.take_along_axis(left, ids[..., None], -1).mean()

    return jax.grad(f, argnums=(0, 1))(table, out)


@prog([(4, 32, 4, 8), (4, 1, 4, 8), (1,)], [P("x", "y"), P("x"), P()], P("x", "y"))
def cache_seq_dynamic(c, n, at):
    return lax.dynamic_update_slice(c, n, (0, ints(at, 32)[0], 0, 0))


@prog([(4, 32, 4, 8), (4, 4, 8), (1,)], [P("x", "y"), P("x"), P()], P("x"))
def decode_attention(c, q, at):
    p = ints(at, 32)[0] + 5
    s = jnp.einsum("bhd,bthd->bht", q, c)
    s = jnp.where(jnp.arange(32) <= p, s, -1e9)
    return jnp.einsum("bht,bthd->bhd", jax.nn.softmax(s, -1), c)


@prog([(8, 16), (4, 16, 32), (4, 32, 16)], [P(("x", "y")), P(None, "y"), P(None, "y")], (P(None, "y"), P(None, "y")))
def scan_fsdp(x, up, down):
    def layer(c, w):
        return c + jax.nn.relu(c @ w[0]) @ w[1] / 40, None

    return jax.grad(lambda u, d: (lax.scan(jax.checkpoint(layer), x, (u, d))[0] ** 2).sum(), argnums=(0, 1))(up, down)


@prog([(8, 8, 8, 16), (16,), (16,)], [P("x", "y"), P(), P()], None)
def batchnorm_grad(x, g, b):
    def f(x, g, b):
        m = x.mean((0, 1, 2))
        v = x.var((0, 1, 2))
        return (jax.nn.relu((x - m) * lax.rsqrt(v + 1e-5) * g + b) ** 2).sum()

    return jax.grad(f, argnums=(0, 1, 2))(x, g, b)


@prog([(4, 32, 16, 8), (3, 3, 8, 8)], [P("x", "y"), P()], P("x", "y"))
def conv_input_grad(x, w):
    def f(x):
        return (conv(x, w, window_strides=(2, 2), padding="SAME") ** 2).mean()

    return jax.grad(f)(x)


@prog([(32, 16), (64, 1), (64, 16)], [P("y"), P("x"), P("x")], P("y"))
def scatter_rows(t, i, u):
    return t.at[ints(i, 32)[:, 0]].add(u)


@prog([(64, 16), (64, 1)], [P(("x", "y")), P(("x", "y"))], None)
def segment_sum(v, i):
    return jax.ops.segment_sum(v, ints(i, 10)[:, 0], 10)


@prog([(8, 32)], [P("x", "y")], P("x", "y"))
def shift_right(x):
    return jnp.pad(x, ((0, 0), (1, 0)))[:, :-1]


@prog([(8, 64)], [P("x", "y")], P("x", "y"))
def swiglu_split(x):
    a, b = jnp.split(x, 2, -1)
    return jax.nn.silu(a) * b


@prog([(4, 32, 16), (4, 32, 16)], [P("x", "y"), P("x", "y")], P("x", "y"))
def linear_recurrence(a, b):
    return lax.associative_scan(lambda left, r: (left[0] * r[0], r[0] * left[1] + r[1]), (jnp.tanh(a), b), axis=1)[1]


@prog([(8, 32, 8)], [P("x", "y")], P("x"))
def last_token(x):
    return x[:, -1]


@prog([(64, 8), (64, 8)], [P(("x", "y")), P(("x", "y"))], P())
def contrastive(a, b):
    a = a / (1e-3 + jnp.linalg.norm(a, axis=-1, keepdims=True))
    b = b / (1e-3 + jnp.linalg.norm(b, axis=-1, keepdims=True))
    left = a @ b.T * 5
    return -jnp.mean(jnp.diag(jax.nn.log_softmax(left, -1)))


@prog([(2, 32, 4, 8)] * 3, [P("x", "y")] * 3, P("x", "y"), together=True)
def ring_attention(q, k, v):
    def f(q, k, v):
        me = lax.axis_index("y")
        n = q.shape[1]

        def step(i, c):
            o, m, left, k, v = c
            src = (me - i) % 4
            s = jnp.einsum("bshd,bthd->bhst", q, k)
            mask = (me * n + jnp.arange(n))[:, None] >= (src * n + jnp.arange(n))[None]
            s = jnp.where(mask, s, -1e9)
            mn = jnp.maximum(m, s.max(-1))
            p = jnp.exp(s - mn[..., None])
            f = jnp.exp(m - mn)
            o = o * f[..., None] + jnp.einsum("bhst,bthd->bhsd", p, v)
            left = left * f + p.sum(-1)
            perm = [(j, (j + 1) % 4) for j in range(4)]
            return o, mn, left, lax.ppermute(k, "y", perm), lax.ppermute(v, "y", perm)

        b, n_, h, d = q.shape
        o, _, left, _, _ = lax.fori_loop(
            0, 4, step, (jnp.zeros((b, h, n_, d)), jnp.full((b, h, n_), -1e9), jnp.zeros((b, h, n_)), k, v)
        )
        return (o / left[..., None]).transpose(0, 2, 1, 3)

    return mapped(f, P("x", "y"), P("x", "y"), check_vma=False)(q, k, v)


@prog([(64, 16), (4, 16, 16)], [P(("x", "y")), P("y")], P(("x", "y")), together=True)
def moe_a2a(x, w):
    def f(x, w):
        t = x.reshape(4, 2, 16)
        r = lax.all_to_all(t, "y", 0, 0)
        h = jnp.tanh(r @ w[0])
        return lax.all_to_all(h, "y", 0, 0).reshape(8, 16)

    return mapped(f, (P(("x", "y")), P("y")), P(("x", "y")))(x, w)


@prog([(8, 16, 32)], [P("x", "y")], P("x", "y"))
def cond_branch(x):
    return lax.cond(x[0, 0, 0] > 0, lambda x: x * 2, lambda x: jnp.cumsum(x, 2), x)


@prog([(16, 16), (16, 4)], [P("x", "y"), P("x")], None)
def take_along(x, i):
    return jnp.take_along_axis(x, ints(i, 16), 1)


def decoding(q, k, v):
    """One query of each row and head over its cache."""
    s = jnp.einsum("bhd,bkhd->bhk", q, k)
    return jnp.einsum("bhk,bkhd->bhd", jax.nn.softmax(s, -1), v)


CACHES = [P("x"), P("x", "y"), P("x", "y")]


@prog([(4, 4, 8), (4, 32, 4, 8), (4, 32, 4, 8)], CACHES, P("x"))
def decode(q, k, v):
    return decoding(q, k, v)


@prog([(4, 4, 8), (4, 32, 8), (4, 32, 8), (4,)], [*CACHES, P("x")], P("x"))
def decode_mqa_masked(q, k, v, n):
    s = jnp.einsum("bhd,bkd->bhk", q, k)
    s = jnp.where((jnp.arange(32)[None] <= ints(8 * n, 32)[:, None])[:, None], s, -jnp.inf)
    return jnp.einsum("bhk,bkd->bhd", jax.nn.softmax(s, -1), v)


@prog([(4, 2, 6, 8), (4, 32, 2, 8), (4, 32, 2, 8), (4,)], [*CACHES, P("x")], P("x"))
def decode_gqa_lengths(q, k, v, n):
    lengths = 1 + ints(8 * n, 32)
    return jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=lengths)


@prog([(4, 4, 8), (4, 29, 4, 8), (4, 29, 4, 8)], [P()] * 3, None)
def decode_uneven(q, k, v):
    return decoding(con(q, "x"), con(k, "x", "y"), con(v, "x", "y"))


@prog([(4, 4, 8), (4, 32, 4, 8), (4, 32, 4, 8)], CACHES, tuple(CACHES))
def decode_gradients(q, k, v):
    return jax.grad(lambda *given: (decoding(*given) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)


@prog([(4, 8, 4, 8), (4, 32, 4, 8), (4, 32, 4, 8), (4, 8, 32)], [*CACHES, P("x", None, "y")], P("x"))
def chunk_causal_window_capped(q, k, v, bias):
    s = jnp.einsum("bshd,bthd->bhst", q, k) / 3 + bias[:, None]
    s = 5 * jnp.tanh(s / 5)
    ahead = jnp.arange(32)[None] - jnp.arange(8)[:, None] - 24
    s = jnp.where((ahead <= 0) & (ahead > -11), s, -jnp.inf)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(s, -1), v)


@prog([(4, 64, 4, 8), (4, 8, 4, 8), (4, 8, 4, 8)], CACHES, P("x"))
def many_queries_of_few_keys(q, k, v):
    return jax.nn.dot_product_attention(q, k, v)


@prog([(4, 32, 8), (4, 1, 8), (4,)], [P("x", "y"), P("x"), P("x")], P("x", "y"))
def cache_rows(c, n, at):
    return jax.vmap(lambda c, n, a: lax.dynamic_update_slice(c, n, (a, 0)))(c, n, ints(12 * at, 40))


@prog([(4, 30, 4, 8), (4, 3, 4, 8), (4,)], [P()] * 3, None)
def cache_chunks(c, n, at):
    c = con(c, "x", "y")
    put = jax.vmap(lambda c, n, a: lax.dynamic_update_slice_in_dim(c, n, a, 0))
    return con(put(c, con(n, "x"), con(ints(12 * at, 40), "x")), "x", "y")


@prog([(4, 32, 4, 8), (4,)], [P("x", None, "y"), P("x")], P("x", None, "y"))
def cache_taken_by_heads(c, at):
    return jax.vmap(lambda c, a: lax.dynamic_slice_in_dim(c, a, 5, 0))(c, ints(12 * at, 40))


@prog([(4, 32, 8), (4,)], [P("x", "y"), P("x")], P("x", "y"))
def cache_taken_gradient(c, at):
    take = jax.vmap(lambda c, a: lax.dynamic_slice_in_dim(c, a, 5, 0))
    return jax.grad(lambda c: (take(c, ints(12 * at, 40)) ** 2).sum())(c)


@prog([(4, 4, 8), *[(4, 32, 4, 8)] * 2, *[(4, 1, 4, 8)] * 2, (4,)], [*CACHES, P("x"), P("x"), P("x")], tuple(CACHES))
def decode_step_of_rows(q, k, v, key, value, at):
    at = ints(8 * at, 32)
    put = jax.vmap(lambda c, n, a: lax.dynamic_update_slice(c, n, (a, 0, 0)))
    k, v = put(k, key, at), put(v, value, at)
    s = jnp.einsum("bhd,bkhd->bhk", q, k)
    s = jnp.where((jnp.arange(32)[None] <= at[:, None])[:, None], s, -jnp.inf)
    return jnp.einsum("bhk,bkhd->bhd", jax.nn.softmax(s, -1), v), k, v


@prog([(24,), (24, 8)], [P("y"), P("y", "x")], None)
def by_order_of_keys(k, x):
    k = ints(4 * k, 9)
    o = jnp.argsort(k)
    found = jnp.searchsorted(jnp.sort(k), jnp.arange(9))
    return x[o], jnp.zeros_like(x).at[o].set(x), found, jnp.unique(k, size=9, fill_value=-1)


@prog([(32,), (8,)], [P("y"), P("x")], P("x"))
def looked_up_in_a_loop(table, x):
    """Each trip reads the table where the last one says."""
    table = jnp.cumsum(jnp.sort(table))
    return lax.fori_loop(0, 5, lambda i, at: ints(at + table[at], 32), ints(4 * x, 32))


@prog([(4, 2, 3, 8), (4, 32, 2, 8), (4, 32, 2, 8)], [P("x", None, None, "y")] * 3, P("x", None, None, "y"))
def heads_divided_by_size(q, k, v):
    s = jnp.einsum("bgpd,bkgd->bgpk", q, k)
    return jnp.einsum("bgpk,bkgd->bgpd", jax.nn.softmax(s, -1), v)
