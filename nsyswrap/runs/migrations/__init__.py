"""The history's tables over the versions of nsyswrap: each module makes one change, in the order of its numbers."""
