// What moves between processing elements in one cycle, and what the engine knows of a fold.

typedef struct packed {
  logic valid;                // an operand, not a bubble
  logic first;                // of its fold: take the waiting weight, or begin a new sum
  logic last;                 // of its fold
  logic foot;                 // this row is the last that the fold uses; ws, is: sums leave here
  logic swap;                 // os: the finished sum starts on its way out
  logic out;                  // os: the sums that start now leave the array in this row
  logic [15:0] fold;
  logic [15:0] index;         // step of the stream
  logic [15:0] width;         // the last column that the fold uses
  logic signed [15:0] data;
} operand_t;

typedef struct packed {
  logic valid;
  logic [15:0] fold;
  logic [15:0] row;           // where a weight stays
  logic signed [15:0] data;
} above_t;

typedef struct packed {
  logic valid;
  logic [15:0] fold;
  logic [15:0] index;         // step of the stream (ws, is) or row (os)
  logic signed [39:0] data;
} sum_t;

typedef struct packed {
  logic [1:0] kind;           // 0: weight-, 1: output-, 2: input-stationary
  logic [15:0] m, k, n;       // of its GEMM
  logic [15:0] row, col;      // where it begins
  logic [15:0] rows, cols;    // of the array that it uses
  logic [15:0] steps;         // of its stream
  int a, b, c;                // addresses of the batch's operands and product
} fold_t;
