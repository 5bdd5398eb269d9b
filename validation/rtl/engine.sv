// A GEMM engine: C[g,m,n] = A[g,m,k] B[g,k,n] on the grid, fold after fold and GEMM after GEMM. Two
// fillers copy operands from memory into double-buffered feeds, one vector per cycle and edge; two
// walkers play them into the grid; sums are collected in accumulators beside it. No part knows how
// many cycles anything takes: each waits for its data, for a token of the grid or for the walker
// before it. Nor does one know where a GEMM ends: a fold of the next is a fold like any other.

module engine #(
    parameter int R = 4,
    parameter int C = 4,
    parameter int STEPS = 64,    // depth of a feed's bank
    parameter int WORDS = 4096,  // of each memory
    parameter int GEMMS = 3,     // at most
    parameter int FOLDS = 256    // of all of them, at most
) (
    input  logic        clk,
    input  logic        reset,
    input  logic        holds,    // weight- and input-stationary, or all output-stationary
    input  logic [1:0]  overlap,  // 0: none, 1: preload, 2: stream
    input  logic        used,     // edge folds use only the rows and columns that they need
    input  logic        eager,    // a fault for tests: begin a cycle before it is safe
    output logic        idle,
    output int          last_mac, // cycles until the last multiplication
    output int          last_out  // and until the last result was at the array's edge
);
  logic signed [15:0] a_mem[WORDS];
  logic signed [15:0] b_mem[WORDS];
  logic signed [39:0] c_mem[WORDS];

  // What is asked for, written during reset -------------------------------------------------------
  int   count;
  int   kinds[GEMMS];  // 0: weight-, 1: output-, 2: input-stationary
  int   gs[GEMMS], ms[GEMMS], ks[GEMMS], ns[GEMMS];

  // Folds: the rows of a strip of columns follow one another, then comes the next strip ----------
  fold_t plan[FOLDS+1];
  int    folds, high, wide, a_base, b_base, c_base;
  fold_t next;
  always @(posedge clk)
    if (reset) begin
      folds = 0;
      a_base = 0;
      b_base = 0;
      c_base = 0;
      for (int one = 0; one < count; one++) begin
        next.kind = 2'(kinds[one]);
        next.m = 16'(ms[one]);
        next.k = 16'(ks[one]);
        next.n = 16'(ns[one]);
        high = kinds[one] == 1 ? ms[one] : ks[one];
        wide = kinds[one] == 2 ? ms[one] : ns[one];
        next.steps = 16'(kinds[one] == 0 ? ms[one] : kinds[one] == 1 ? ks[one] : ns[one]);
        for (int batch = 0; batch < gs[one]; batch++) begin
          next.a = a_base;
          next.b = b_base;
          next.c = c_base;
          for (int across = 0; across < wide; across = across + C)
            for (int down = 0; down < high; down = down + R) begin
              next.row = 16'(down);
              next.col = 16'(across);
              next.rows = 16'(used && high - down < R ? high - down : R);
              next.cols = 16'(used && wide - across < C ? wide - across : C);
              plan[folds] = next;
              folds = folds + 1;
            end
          a_base = a_base + ms[one] * ks[one];
          b_base = b_base + ks[one] * ns[one];
          c_base = c_base + ms[one] * ns[one];
        end
      end
      plan[folds] = '0;
    end

  function automatic logic signed [15:0] a_at(input fold_t of, input int row, input int col);
    return row < 32'(of.m) && col < 32'(of.k) ? a_mem[of.a+row*32'(of.k)+col] : 16'sd0;
  endfunction
  function automatic logic signed [15:0] b_at(input fold_t of, input int row, input int col);
    return row < 32'(of.k) && col < 32'(of.n) ? b_mem[of.b+row*32'(of.n)+col] : 16'sd0;
  endfunction

  // Feeds: two banks for each edge -----------------------------------------------------------------
  logic signed [15:0] left_bank[2*STEPS*R];
  logic signed [15:0] top_bank[2*STEPS*C];
  int left_fold, left_step, top_fold, top_step;  // the fillers' place
  int left_played, top_played;                   // folds whose bank is free again
  wire fold_t filling_left = plan[left_fold];
  wire fold_t filling_top = plan[top_fold];
  wire int steps_left = 32'(filling_left.steps);
  wire int steps_top = holds ? 32'(filling_top.rows) : 32'(filling_top.steps);

  function automatic logic signed [15:0] left_word(input fold_t of, input int step, input int r);
    if (of.kind == 0) return a_at(of, step, 32'(of.row) + r);
    if (of.kind == 1) return a_at(of, 32'(of.row) + r, step);
    return b_at(of, 32'(of.row) + r, step);
  endfunction
  function automatic logic signed [15:0] top_word(input fold_t of, input int step, input int c);
    automatic int held = 32'(of.row) + 32'(of.rows) - 1 - step;  // the lowest row goes first
    if (of.kind == 0) return b_at(of, held, 32'(of.col) + c);
    if (of.kind == 1) return b_at(of, step, 32'(of.col) + c);
    return a_at(of, 32'(of.col) + c, held);
  endfunction

  always_ff @(posedge clk)
    if (reset) begin
      left_fold <= 0;
      left_step <= 0;
      top_fold <= 0;
      top_step <= 0;
    end else begin
      if (left_fold < folds && left_fold < left_played + 2) begin
        for (int r = 0; r < R; r++)
          left_bank[((left_fold%2)*STEPS+left_step)*R+r] <= left_word(filling_left, left_step, r);
        left_step <= left_step + 1 == steps_left ? 0 : left_step + 1;
        left_fold <= left_step + 1 == steps_left ? left_fold + 1 : left_fold;
      end
      if (top_fold < folds && top_fold < top_played + 2) begin
        for (int c = 0; c < C; c++)
          top_bank[((top_fold%2)*STEPS+top_step)*C+c] <= top_word(filling_top, top_step, c);
        top_step <= top_step + 1 == steps_top ? 0 : top_step + 1;
        top_fold <= top_step + 1 == steps_top ? top_fold + 1 : top_fold;
      end
    end

  // Walkers: weights fall in before their fold (ws, is), operands stream in ------------------------
  logic [R*$bits(operand_t)-1:0] left;
  logic [C*$bits(above_t)-1:0]   above;
  logic [R*C*$bits(sum_t)-1:0]   result;
  logic [R*C-1:0]                done;
  int load_fold, load_step, loaded;      // weights
  int play_fold, play_step;              // operands
  int started, finished;                 // folds begun, and folds whose last multiplication is over
  logic pending;                         // os: sums of the fold before are complete or nearly so
  int gap;                               // os: cycles for which sums still leave
  int ended;                             // several may end in one cycle
  always_comb begin
    ended = 0;
    for (int i = 0; i < R * C; i++) ended = ended + 32'(done[i]);
  end
  wire int over = finished + ended;
  wire swap = pending && gap <= 32'(eager);
  wire left_there = left_fold > play_fold || (left_fold == play_fold && left_step > play_step);
  wire top_there = top_fold > top_at || (top_fold == top_at && top_step > top_step_at);
  wire int top_at = holds ? load_fold : play_fold;
  wire int top_step_at = holds ? load_step : play_step;
  wire weights_there = loaded > play_fold
      || (eager && loaded == play_fold && load_step > 0 && load_step + 1 == load_rows);
  wire free = holds ? weights_there : top_there && (!pending || swap);
  wire begins = play_fold < folds && left_there && free && (overlap == 2 || over >= play_fold);
  wire plays = play_step != 0 || begins;
  wire first = plays && play_step == 0;
  wire int begun = started + 32'(first);
  wire loads = holds && load_fold < folds && top_there
      && (load_step != 0 || load_fold == 0 || (overlap == 0 ? over : begun) >= load_fold);
  wire loads_last = loads && load_step + 1 == load_rows;
  wire plays_last = plays && play_step + 1 == 32'(playing.steps);
  int  leaving;  // os: the fold whose sums leave next

  wire fold_t playing = plan[play_fold];
  wire fold_t loading = plan[load_fold];
  wire fold_t gone = plan[leaving];
  wire int play_rows = 32'(playing.rows);
  wire int play_cols = 32'(playing.cols);
  wire int load_rows = 32'(loading.rows);
  wire int leaving_rows = 32'(gone.rows);

  for (genvar r = 0; r < R; r++) begin : g_left
    wire signed [15:0] word = left_bank[((play_fold%2)*STEPS+play_step)*R+r];
    assign left[r*$bits(operand_t)+:$bits(operand_t)] = {
      plays && r < play_rows,
      first,
      plays_last,
      r + 1 == play_rows,
      swap,
      r + 1 == leaving_rows,
      16'(play_fold + 1),
      16'(play_step),
      16'(play_cols - 1),
      word
    };
  end
  for (genvar c = 0; c < C; c++) begin : g_above
    wire signed [15:0] word = top_bank[((top_at%2)*STEPS+top_step_at)*C+c];
    assign above[c*$bits(above_t)+:$bits(above_t)] = {
      holds ? loads : plays, 16'(top_at + 1), 16'(load_rows - 1 - load_step), word
    };
  end

  always_ff @(posedge clk)
    if (reset) begin
      load_fold <= 0;
      load_step <= 0;
      loaded <= 0;
      play_fold <= 0;
      play_step <= 0;
      started <= 0;
      finished <= 0;
      pending <= 1'b0;
      gap <= 0;
      leaving <= 0;
      left_played <= 0;
      top_played <= 0;
    end else begin
      started <= begun;
      finished <= over;
      if (plays) play_step <= plays_last ? 0 : play_step + 1;
      if (plays_last) begin
        play_fold <= play_fold + 1;
        left_played <= left_played + 1;
      end
      if (loads) load_step <= loads_last ? 0 : load_step + 1;
      if (loads_last) begin
        load_fold <= load_fold + 1;
        loaded <= loaded + 1;
      end
      if (holds ? loads_last : plays_last) top_played <= top_played + 1;
      pending <= !holds && (plays_last || (pending && !swap));
      gap <= swap ? leaving_rows - 1 : gap > 0 ? gap - 1 : 0;
      if (swap) leaving <= leaving + 1;
    end

  grid #(.R(R), .C(C)) pes (.clk, .reset, .holds, .left, .above, .result, .done);

  // Accumulators beside the array, and the two clocks ----------------------------------------------
  int cycle, quiet, at;
  sum_t one;
  wire running = cycle != 0 || plays || loads;
  fold_t from;
  function automatic int place(input fold_t of, input int index, input int c);
    automatic int down = of.kind == 1 ? 32'(of.row) + index : index;
    automatic int across = 32'(of.col) + c;
    automatic int row = of.kind == 2 ? across : down;
    automatic int col = of.kind == 2 ? down : across;
    return row < 32'(of.m) && col < 32'(of.n) ? of.c + row * 32'(of.n) + col : -1;
  endfunction

  always @(posedge clk)
    if (reset) begin
      cycle = 0;
      quiet = 0;
      last_mac = 0;
      last_out = 0;
      for (int i = 0; i < c_base; i++) c_mem[i] = 40'sd0;
    end else begin
      if (running) begin
        if (ended != 0) last_mac = cycle;
        quiet = quiet + 1;
        if (plays || loads || pending || gap > 0) quiet = 0;
        for (int i = 0; i < R * C; i++) begin
          one = result[i*$bits(sum_t)+:$bits(sum_t)];
          from = plan[32'(one.fold)-1];
          if (one.valid && i % C < 32'(from.cols)) begin
            at = place(from, 32'(one.index), i % C);
            last_out = cycle;
            if (at >= 0) c_mem[at] = c_mem[at] + one.data;
          end
        end
        cycle = cycle + 1;
      end
    end
  assign idle = finished == folds && quiet > 2 * (R + C);
endmodule
