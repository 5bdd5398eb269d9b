// Runs the GEMMs of a file on one size of array and writes what they took and gave.
//
// +cases=FILE: lines of kind overlap used eager g m k n, followed by the words of A and B.
// +out=FILE: a line of last_mac last_out for each, followed by the words of C.

`timescale 1ns / 1ns
module bench;
  parameter int R = 4;
  parameter int C = 4;
  parameter int STEPS = 64;
  parameter int WORDS = 4096;
  logic clk = 1'b0, reset = 1'b1;
  logic [1:0] kind, overlap;
  logic used, eager, idle;
  int g, m, k, n, last_mac, last_out;

  engine #(.R(R), .C(C), .STEPS(STEPS), .WORDS(WORDS)) dut (.*);

  always #5 clk = !clk;

  task automatic read_word(input int file, output int word);
    if ($fscanf(file, "%d", word) != 1) $fatal(1, "the file of cases ends early");
  endtask

  string cases_name, out_name;
  int cases, out, got, word, spent;
  initial begin
    if (!$value$plusargs("cases=%s", cases_name) || !$value$plusargs("out=%s", out_name))
      $fatal(1, "+cases=FILE and +out=FILE are needed");
    cases = $fopen(cases_name, "r");
    out = $fopen(out_name, "w");
    got = $fscanf(cases, "%d", word);
    while (got == 1) begin
      kind = 2'(word);
      read_word(cases, word); overlap = 2'(word);
      read_word(cases, word); used = 1'(word);
      read_word(cases, word); eager = 1'(word);
      read_word(cases, g);
      read_word(cases, m);
      read_word(cases, k);
      read_word(cases, n);
      reset = 1'b1;
      for (int i = 0; i < g * m * k; i++) begin
        read_word(cases, word); dut.a_mem[i] = 16'(word);
      end
      for (int i = 0; i < g * k * n; i++) begin
        read_word(cases, word); dut.b_mem[i] = 16'(word);
      end
      // registers of the skew are as many cycles deep as the array has rows or columns
      repeat (R + C + 2) @(negedge clk);
      reset = 1'b0;
      spent = 0;
      while (!idle) begin
        @(negedge clk);
        spent = spent + 1;
        if (spent > 20000) $fatal(1, "the engine does not end");
      end
      $fdisplay(out, "%0d %0d", last_mac, last_out);
      for (int i = 0; i < g * m * n; i++) $fdisplay(out, "%0d", dut.c_mem[i]);
      got = $fscanf(cases, "%d", word);
    end
    $fclose(out);
    $finish;
  end
endmodule
