// Runs GEMMs, one or some behind one another, on one size of array and writes what they took and gave.
//
// +cases=FILE: lines of count holds overlap used eager; for each GEMM kind g m k n; then the words of
// A and B of each. +out=FILE: a line of last_mac last_out for each run, followed by the words of C.

`timescale 1ns / 1ns
module bench;
  parameter int R = 4;
  parameter int C = 4;
  parameter int STEPS = 64;
  parameter int WORDS = 4096;
  parameter int GEMMS = 3;
  parameter int FOLDS = 256;
  parameter int CYCLES = 20000;  // after which the engine is stuck
  logic clk = 1'b0, reset = 1'b1;
  logic [1:0] overlap;
  logic holds, used, eager, idle;
  int last_mac, last_out;

  engine #(.R(R), .C(C), .STEPS(STEPS), .WORDS(WORDS), .GEMMS(GEMMS), .FOLDS(FOLDS)) dut (.*);

  always #5 clk = !clk;

  task automatic read_word(input int file, output int word);
    if ($fscanf(file, "%d", word) != 1) $fatal(1, "the file of cases ends early");
  endtask

  string cases_name, out_name;
  int cases, out, got, word, spent, a_words, b_words, c_words;
  initial begin
    if (!$value$plusargs("cases=%s", cases_name) || !$value$plusargs("out=%s", out_name))
      $fatal(1, "+cases=FILE and +out=FILE are needed");
    cases = $fopen(cases_name, "r");
    out = $fopen(out_name, "w");
    got = $fscanf(cases, "%d", word);
    while (got == 1) begin
      reset = 1'b1;
      dut.count = word;
      read_word(cases, word); holds = 1'(word);
      read_word(cases, word); overlap = 2'(word);
      read_word(cases, word); used = 1'(word);
      read_word(cases, word); eager = 1'(word);
      a_words = 0;
      b_words = 0;
      c_words = 0;
      for (int i = 0; i < dut.count; i++) begin
        read_word(cases, word); dut.kinds[i] = word;
        read_word(cases, word); dut.gs[i] = word;
        read_word(cases, word); dut.ms[i] = word;
        read_word(cases, word); dut.ks[i] = word;
        read_word(cases, word); dut.ns[i] = word;
        a_words = a_words + dut.gs[i] * dut.ms[i] * dut.ks[i];
        b_words = b_words + dut.gs[i] * dut.ks[i] * dut.ns[i];
        c_words = c_words + dut.gs[i] * dut.ms[i] * dut.ns[i];
      end
      for (int i = 0; i < a_words; i++) begin
        read_word(cases, word); dut.a_mem[i] = 16'(word);
      end
      for (int i = 0; i < b_words; i++) begin
        read_word(cases, word); dut.b_mem[i] = 16'(word);
      end
      // registers of the skew are as many cycles deep as the array has rows or columns
      repeat (R + C + 2) @(negedge clk);
      reset = 1'b0;
      spent = 0;
      while (!idle) begin
        @(negedge clk);
        spent = spent + 1;
        if (spent > CYCLES) $fatal(1, "the engine does not end");
      end
      $fdisplay(out, "%0d %0d", last_mac, last_out);
      for (int i = 0; i < c_words; i++) $fdisplay(out, "%0d", dut.c_mem[i]);
      got = $fscanf(cases, "%d", word);
    end
    $fclose(out);
    $finish;
  end
endmodule
