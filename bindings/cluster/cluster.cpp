// Clusters: one function per part.
#include <pybind11/pybind11.h>

void init_cluster_network(pybind11::module_& module);
void init_cluster_partition(pybind11::module_& module);
void init_cluster_pipeline(pybind11::module_& module);

void init_cluster(pybind11::module_& module) {
  init_cluster_network(module);
  init_cluster_partition(module);
  init_cluster_pipeline(module);
}
