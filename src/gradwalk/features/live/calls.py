"""The calls that a live page can compute, by name; ``js/features/live/calls.ts`` has them."""

from __future__ import annotations

_POINTWISE = (
    "abs,acos,acosh,add,asin,asinh,atan,atan2,atanh,bitwise_and,bitwise_not,bitwise_or,"
    "bitwise_xor,ceil,clamp,cos,cosh,div,eq,erf,erfc,exp,exp2,expm1,floor,fmod,ge,gt,"
    "isinf,isnan,le,log,log10,log1p,log2,logical_and,logical_not,logical_or,logical_xor,"
    "lt,maximum,minimum,mul,ne,neg,pow,reciprocal,relu,remainder,round,rsqrt,rsub,sgn,"
    "sigmoid,sign,sin,sinh,sqrt,sub,tan,tanh,trunc,where,xlogy"
)
_OTHERS = (
    "_to_copy,all,amax,amin,any,argmax,argmin,avg_pool2d,avg_pool2d_backward,bmm,cat,"
    "clone,convolution,convolution_backward,copy,cumprod,cumsum,fill,flip,gather,index,"
    "index_add,index_put,index_select,max,max_pool2d_with_indices,"
    "max_pool2d_with_indices_backward,mean,min,mm,prod,scatter,scatter_add,sort,sum,topk,"
    "var,zero"
)
CALLS = frozenset(f"{_POINTWISE},{_OTHERS}".split(","))
"""The names of operations of ``torch.ops.aten``, without overload and without the "_" of in-place
ones."""
