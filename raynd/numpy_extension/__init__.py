"""``mx.npx``: neural-network operators, devices, files, and the switches of NumPy semantics."""
from __future__ import annotations

from ..device import (  # noqa: F401
    Device,
    cpu,
    cpu_pinned,
    current_device,
    gpu,
    gpu_memory_info,
    num_gpus,
)
from ..engine import waitall  # noqa: F401
from ..ndarray.bindings import export
from ..ndarray.interop import NPX_FUNCTIONS as _interop
from ..ndarray.neural import NPX_FUNCTIONS as _neural
from ..ndarray.sampling import NPX_FUNCTIONS as _sampling
from ..ndarray.serialization import load, save, savez  # noqa: F401
from ..random import seed  # noqa: F401
from ..util import (  # noqa: F401
    get_cuda_compute_capability,
    is_np_array,
    is_np_default_dtype,
    is_np_shape,
    np_array,
    np_shape,
    reset_np,
    set_np,
    set_np_default_dtype,
    use_np,
    use_np_array,
    use_np_default_dtype,
    use_np_shape,
)

globals().update(export("npx", __name__))

from . import (  # noqa: E402
    control_flow,
    image,  # noqa: F401
    legacy as _legacy,
    random,  # noqa: F401
    shapes as _shapes,
)

for _module in (_shapes, _legacy, control_flow):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
globals().update(_interop)
globals().update(_neural)
globals().update(_sampling)
