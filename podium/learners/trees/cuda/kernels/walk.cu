// Scores of rows: a thread walks with its row down one tree after the other, and adds the values of the leaves in that
// order, as `walk_documents` on the CPU.

extern "C" __global__ void add_trees(const Walk* arguments) {
    const Walk w = *arguments;
    for (long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x; row < w.n_rows; row += (long long)gridDim.x * blockDim.x) {
        const float* x = w.rows + row * w.width;
        double score = w.scores[row];
        for (long long tree = 0; tree < w.n_trees; tree++) {
            unsigned int node = (unsigned int)w.roots[tree], child = w.left[node];
            while (child != node) {
                float value = x[w.feature[node]];
                bool goes_right = value > w.threshold[node] || (value != value && w.missing_right[node]);
                node = child + goes_right;
                child = w.left[node];
            }
            score += w.value[node];
        }
        w.scores[row] = score;
    }
}
