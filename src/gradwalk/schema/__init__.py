"""The format of data between Python and the browser, and of saved files.

``make types`` writes it in TypeScript, and ``make check`` fails if that is out of date. NaN and
infinities are not JSON, so they are the strings "nan", "inf" and "-inf".
"""
