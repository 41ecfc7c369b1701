"""Random networks of several dimensions."""

import random

import tilesim as ts

RATES, LATENCIES, SIZES = (25e9, 50e9, 450e9), (0, 5e-7, 1e-5), (2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 32, 64)


def dimension(rng, most):
    kind = rng.choice(["switch", "fat_tree", "fat_tree", "full", "ring"])
    found = {"kind": kind, "size": rng.choice([one for one in SIZES if one <= most]),
             "bandwidth_bytes_per_second": rng.choice(RATES), "latency_seconds": rng.choice(LATENCIES)}  # fmt: skip
    if kind == "fat_tree":
        over = rng.choice([1, 1.5, 2, 3, 4, 8])
        radix = rng.choice([one for one in (4, 6, 8, 12, 16) if one > over])
        found |= {"radix": radix, "levels": 3, "oversubscription": over, "trunk_latency_seconds": rng.choice([0, 1e-6])}
    return found


def networks(seed, most=64):
    """One to four dimensions, some with fewer ports than devices."""
    rng = random.Random(seed)
    while True:
        inside, network = 1, []
        for _ in range(rng.choice([1, 2, 3, 4])):
            if most // inside < 2:
                break
            one = dimension(rng, most // inside)
            if network and one["kind"] != "full" and rng.random() < 0.25:
                one["rails"] = rng.choice([rails for rails in range(1, inside + 1) if inside % rails == 0])
            network.append(one)
            inside *= one["size"]
        try:
            ts.Cluster(network=network)
        except ts.UserError as error:  # more devices than a tree of that radix has
            assert "radix" in str(error) or "fat" in str(error) or "tree" in str(error), error
            continue
        yield network, int(10 ** rng.uniform(3, 9)), rng
