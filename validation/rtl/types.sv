// What moves between processing elements in one cycle.

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
