// R x C processing elements with skewed edges: row r gets its operand r cycles after row 0, column c
// what comes from above c cycles after column 0. Nothing is broadcast.

module grid
#(
    parameter int R = 4,
    parameter int C = 4
) (
    input  logic     clk,
    input  logic     reset,
    input  logic     holds,
    input  logic [R*$bits(operand_t)-1:0] left,
    input  logic [C*$bits(above_t)-1:0]   above,
    output logic [R*C*$bits(sum_t)-1:0]   result,
    output logic [R*C-1:0]                done
);
  localparam int OPERAND = $bits(operand_t);
  localparam int ABOVE = $bits(above_t);
  localparam int SUM = $bits(sum_t);
  wire operand_t right[R*C];
  wire above_t   below[R*C];
  wire sum_t     sum_below[R*C];
  wire operand_t entering[R];
  wire above_t   falling[C];

  for (genvar r = 0; r < R; r++) begin : g_row_skew
    if (r == 0) begin : g_none
      assign entering[r] = left[r*OPERAND+:OPERAND];
    end else begin : g_delay
      operand_t stage[r];
      always_ff @(posedge clk)
        for (int i = 0; i < r; i++) stage[i] <= reset ? '0 : (i == 0 ? left[r*OPERAND+:OPERAND] : stage[i-1]);
      assign entering[r] = stage[r-1];
    end
  end

  for (genvar c = 0; c < C; c++) begin : g_col_skew
    if (c == 0) begin : g_none
      assign falling[c] = above[c*ABOVE+:ABOVE];
    end else begin : g_delay
      above_t stage[c];
      always_ff @(posedge clk)
        for (int i = 0; i < c; i++) stage[i] <= reset ? '0 : (i == 0 ? above[c*ABOVE+:ABOVE] : stage[i-1]);
      assign falling[c] = stage[c-1];
    end
  end

  for (genvar r = 0; r < R; r++) begin : g_row
    for (genvar c = 0; c < C; c++) begin : g_col
      wire operand_t from_left;
      wire above_t   from_above;
      wire sum_t     sum_from_above;
      if (c == 0) begin : g_west
        assign from_left = entering[r];
      end else begin : g_inner
        assign from_left = right[r*C+c-1];
      end
      if (r == 0) begin : g_north
        assign from_above = falling[c];
        assign sum_from_above = '0;
      end else begin : g_lower
        assign from_above = below[(r-1)*C+c];
        assign sum_from_above = sum_below[(r-1)*C+c];
      end
      pe #(.ROW(r), .COL(c)) one (
          .clk, .reset, .holds,
          .left(from_left), .right(right[r*C+c]),
          .above(from_above), .below(below[r*C+c]),
          .sum_above(sum_from_above), .sum_below(sum_below[r*C+c]),
          .result(result[(r*C+c)*SUM+:SUM]), .done(done[r*C+c])
      );
    end
  end
endmodule
