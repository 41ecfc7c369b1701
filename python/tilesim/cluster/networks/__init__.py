"""Network models: tori, in-network reduction, contention, the actual network of a cluster."""
