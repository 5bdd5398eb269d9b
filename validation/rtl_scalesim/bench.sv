// Plays buses and control lines, cycle by cycle, to `traditional_systolic_array` of SCALE-Sim, whose files
// are compiled beside this one, and writes the bus at its foot.
//
// STACKED = 0: one array of ROWS x COLS. 1: ROWS arrays of one row each, one below the other, wired here.
// +in=FILE: a line a cycle of rst, stat_bit, op2_select, out_select and, in hex, the left and the top bus.
// +out=FILE: a line a cycle of the bottom bus in hex. Lines of rst = 1 begin anew.

`timescale 1ns / 1ns
module bench;
  parameter int ROWS = 2;
  parameter int COLS = 2;
  parameter int WORD_SIZE = 32;
  parameter int STACKED = 1;
  localparam int HIGH = STACKED ? 1 : ROWS;  // rows of one array

  logic clk = 1'b0, rst, stat, op2, out;
  logic [ROWS*WORD_SIZE-1:0] left;
  logic [COLS*WORD_SIZE-1:0] top;
  wire [COLS*WORD_SIZE-1:0] down[ROWS/HIGH+1];
  assign down[0] = top;

  always #5 clk = !clk;

  genvar p;
  generate
    for (p = 0; p < ROWS / HIGH; p = p + 1) begin : part
      traditional_systolic_array #(.ROWS(HIGH), .COLS(COLS), .WORD_SIZE(WORD_SIZE)) dut (
          .clk(clk), .rst(rst), .ctl_stat_bit_in(stat), .ctl_dummy_fsm_op2_select_in(op2),
          .ctl_dummy_fsm_out_select_in(out), .left_in_bus(left[p*HIGH*WORD_SIZE+:HIGH*WORD_SIZE]),
          .top_in_bus(down[p]), .bottom_out_bus(down[p+1]), .right_out_bus()
      );
    end
  endgenerate

  string in_name, out_name;
  int given, made;
  initial begin
    if (!$value$plusargs("in=%s", in_name) || !$value$plusargs("out=%s", out_name))
      $fatal(1, "+in=FILE and +out=FILE are needed");
    given = $fopen(in_name, "r");
    made = $fopen(out_name, "w");
    while ($fscanf(given, "%b %b %b %b %h %h", rst, stat, op2, out, left, top) == 6) begin
      @(negedge clk);
      $fdisplay(made, "%h", down[ROWS/HIGH]);
      @(posedge clk);
      #1;
    end
    $fclose(made);
    $finish;
  end
endmodule
