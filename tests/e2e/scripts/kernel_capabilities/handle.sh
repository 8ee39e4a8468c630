python3 -c '
import ctypes

l = ctypes.CDLL(None, use_errno=True)
b = (ctypes.c_uint * 40)(128)
m = ctypes.c_int()
l.name_to_handle_at(-100, b"f", b, ctypes.byref(m), 0)
print(ctypes.get_errno())
'
