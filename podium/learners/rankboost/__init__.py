"""RankBoost: weak rankers, each chosen on a distribution over pairs that is never written out."""
