"""Many captures: small sums of each, made by processes of this machine or of a Dask cluster, and their totals.

::

    captures --each one, in some process--> CaptureSums, as JSON --in the order of the captures--> ManyCaptures

Sums are whole numbers and the order is that of the captures, so the result does not depend on who read them.
"""
