"""The one search: candidates in columns, mapspaces and near-ties, judged by runs on the machine."""
