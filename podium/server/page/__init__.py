"""The page of `podium serve`: search, compare, see why, judge, measure, export."""
