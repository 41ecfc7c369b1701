"""What the sharded programs of the corpus share: meshes of 8 virtual devices, short forms, the list of programs."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

devices = np.array(jax.devices())
plane = Mesh(devices.reshape(2, 4), ("x", "y"))
line = Mesh(devices, ("x",))
cube = Mesh(devices.reshape(2, 2, 2), ("x", "y", "z"))
#: name: (function, arguments' shapes, their shardings, shardings of outputs, mesh, whether it needs all devices)
PROGRAMS = {}
#: constraints are left out of the program for one device
constraining = [True]


def con(x, *spec, mesh=plane):
    """x, divided so."""
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec))) if constraining[0] else x


def mapped(f, inside, outside, mesh=plane, **options):
    """f on each device's own parts."""
    return shard_map(f, mesh=mesh, in_specs=inside, out_specs=outside, **options)


def ints(x, n):
    """Whole numbers below n."""
    return jnp.abs(x.astype(jnp.int32)) % n


def conv(x, w, **options):
    """A convolution of images with channels last."""
    return lax.conv_general_dilated(x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


def prog(shapes, inside, outside=None, mesh=plane, together=False):
    """Registers a program: shapes and shardings of arguments, shardings of outputs; together: not for one device."""

    def add(f):
        assert f.__name__ not in PROGRAMS, f.__name__
        PROGRAMS[f.__name__] = (f, shapes, inside, outside, mesh, together)
        return f

    return add
