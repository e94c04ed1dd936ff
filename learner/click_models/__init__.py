"""Click models: how users browse, learned from logged lists."""
