// One processing element of the systolic array: an operand register that moves right, a register
// that moves down, a weight with its shadow (ws, is) and two sums (os), of which one accumulates
// while the other leaves, as in Gemmini's PE (Genc et al., DAC 2021).

module pe
#(
    parameter int ROW = 0,
    parameter int COL = 0
) (
    input  logic     clk,
    input  logic     reset,
    input  logic     holds,     // weights stay (ws, is) or sums do (os)
    input  operand_t left,
    output operand_t right,
    input  above_t   above,
    output above_t   below,
    input  sum_t     sum_above,
    output sum_t     sum_below,
    output sum_t     result,    // at the array's edge
    output logic     done       // the last multiplication of a fold was the cycle before
);
  // ws, is ---------------------------------------------------------------------------------------
  above_t shadow, weight;
  sum_t   psum;
  logic   psum_foot;
  wire signed [15:0] factor = left.first ? shadow.data : weight.data;
  wire signed [15:0] operand = left.data;
  wire signed [39:0] part = operand * factor;

  // os -------------------------------------------------------------------------------------------
  sum_t sum0, sum1, link;
  logic chosen, out_here;
  wire  accumulating = chosen ^ left.swap;
  wire  out_now = left.swap ? left.out : out_here;
  wire  multiplies = left.valid && above.valid;
  wire sum_t leaving = accumulating ? sum0 : sum1;
  wire sum_t growing = accumulating ? sum1 : sum0;
  wire signed [39:0] so_far = left.first ? 40'sd0 : growing.data;
  wire signed [15:0] partner = above.data;
  wire signed [39:0] product = operand * partner;
  wire sum_t grown = multiplies ? {1'b1, left.fold, 16'(ROW), so_far + product} : growing;

  // Sums go on downwards until the row in which they leave the array.
  wire sum_t moving = holds ? psum : leaving;
  wire leaves = holds ? psum_foot : out_now;
  assign result = {moving.valid && leaves, moving.fold, moving.index, moving.data};
  assign sum_below = {moving.valid && !leaves, moving.fold, moving.index, moving.data};

  always_ff @(posedge clk) begin
    if (reset) begin
      right <= '0;
      below <= '0;
      shadow <= '0;
      weight <= '0;
      psum <= '0;
      psum_foot <= 1'b0;
      sum0 <= '0;
      sum1 <= '0;
      link <= '0;
      chosen <= 1'b0;
      out_here <= 1'b0;
      done <= 1'b0;
    end else begin
      right <= left;
      below <= above;
      done  <= left.valid && left.last && left.foot && left.width == 16'(COL);
      if (holds) begin
        below.valid <= above.valid && above.row > 16'(ROW);
        if (above.valid && above.row == 16'(ROW)) shadow <= above;
        if (left.valid && left.first) weight <= shadow;
        psum.valid <= left.valid;
        psum.fold  <= left.fold;
        psum.index <= left.index;
        psum.data  <= sum_above.data + part;
        psum_foot  <= left.foot;
      end else begin
        link <= sum_above;
        chosen <= accumulating;
        out_here <= out_now;
        sum0 <= accumulating ? link : grown;
        sum1 <= accumulating ? grown : link;
      end
    end
  end

  // What must never happen. The feeder is checked here, where a wrong step would do harm.
  always @(posedge clk)
    if (!reset) begin
      if (holds && left.valid) begin
        if (left.first && shadow.fold != left.fold)
          $fatal(1, "PE %0d,%0d: its weight is not there", ROW, COL);
        if (!left.first && weight.fold != left.fold)
          $fatal(1, "PE %0d,%0d: the weight of another fold", ROW, COL);
        if (ROW > 0 && !(sum_above.valid && sum_above.fold == left.fold
                         && sum_above.index == left.index))
          $fatal(1, "PE %0d,%0d: a sum met another row's operand", ROW, COL);
      end
      if (!holds && left.swap && growing.valid)
        $fatal(1, "PE %0d,%0d: a sum that still leaves is overwritten", ROW, COL);
      if (!holds && left.valid && !above.valid)
        $fatal(1, "PE %0d,%0d: an operand without its partner", ROW, COL);
    end
endmodule
