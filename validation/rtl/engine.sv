// A GEMM engine: C[g,m,n] = A[g,m,k] B[g,k,n] on the grid, fold after fold. Two fillers copy operands
// from memory into double-buffered feeds, one vector per cycle and edge; two walkers play them into
// the grid; sums are collected in accumulators beside it. No part knows how many cycles anything
// takes: each waits for its data, for a token of the grid or for the walker before it.

module engine #(
    parameter int R = 4,
    parameter int C = 4,
    parameter int STEPS = 64,   // depth of a feed's bank
    parameter int WORDS = 4096  // of each memory
) (
    input  logic        clk,
    input  logic        reset,
    input  logic [1:0]  kind,     // 0: weight-, 1: output-, 2: input-stationary
    input  logic [1:0]  overlap,  // 0: none, 1: preload, 2: stream
    input  logic        used,     // edge folds use only the rows and columns that they need
    input  logic        eager,    // a fault for tests: begin a cycle before it is safe
    input  int          g, m, k, n,
    output logic        idle,
    output int          last_mac, // cycles until the last multiplication
    output int          last_out  // and until the last result was at the array's edge
);
  logic signed [15:0] a_mem[WORDS];
  logic signed [15:0] b_mem[WORDS];
  logic signed [39:0] c_mem[WORDS];

  // Folds: the rows of a strip of columns follow one another, then comes the next strip ----------
  wire holds = kind != 1;
  wire int high = holds ? k : m;
  wire int wide = kind == 2 ? m : n;
  wire int steps = kind == 0 ? m : kind == 1 ? k : n;
  wire int row_folds = (high + R - 1) / R;
  wire int col_folds = (wide + C - 1) / C;
  wire int folds = g * row_folds * col_folds;

  function automatic int row_of(input int fold);  // first row of the fold's operands
    return (fold % row_folds) * R;
  endfunction
  function automatic int col_of(input int fold);
    return (fold / row_folds % col_folds) * C;
  endfunction
  // What continuous assignments call has all it depends on as arguments, so that they wake up.
  function automatic int rows_of(input int fold, input int row_folds_, input int high_, input logic u);
    automatic int rest = high_ - (fold % row_folds_) * R;
    return u && rest < R ? rest : R;
  endfunction
  function automatic int cols_of(input int fold, input int row_folds_, input int col_folds_,
                                 input int wide_, input logic u);
    automatic int rest = wide_ - (fold / row_folds_ % col_folds_) * C;
    return u && rest < C ? rest : C;
  endfunction

  function automatic logic signed [15:0] a_at(input int batch, input int row, input int col);
    return row < m && col < k ? a_mem[(batch*m+row)*k+col] : 16'sd0;
  endfunction
  function automatic logic signed [15:0] b_at(input int batch, input int row, input int col);
    return row < k && col < n ? b_mem[(batch*k+row)*n+col] : 16'sd0;
  endfunction

  // Feeds: two banks for each edge -----------------------------------------------------------------
  logic signed [15:0] left_bank[2*STEPS*R];
  logic signed [15:0] top_bank[2*STEPS*C];
  int left_fold, left_step, top_fold, top_step;  // the fillers' place
  int left_played, top_played;                   // folds whose bank is free again
  wire int top_steps = holds ? rows_of(top_fold, row_folds, high, used) : steps;

  function automatic logic signed [15:0] left_word(input int fold, input int step, input int r);
    automatic int batch = fold / (row_folds * col_folds);
    if (kind == 0) return a_at(batch, step, row_of(fold) + r);
    if (kind == 1) return a_at(batch, row_of(fold) + r, step);
    return b_at(batch, row_of(fold) + r, step);
  endfunction
  function automatic logic signed [15:0] top_word(input int fold, input int step, input int c);
    automatic int batch = fold / (row_folds * col_folds);
    automatic int held = row_of(fold) + rows_of(fold, row_folds, high, used) - 1 - step;  // the lowest row goes first
    if (kind == 0) return b_at(batch, held, col_of(fold) + c);
    if (kind == 1) return b_at(batch, step, col_of(fold) + c);
    return a_at(batch, col_of(fold) + c, held);
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
          left_bank[((left_fold%2)*STEPS+left_step)*R+r] <= left_word(left_fold, left_step, r);
        left_step <= left_step + 1 == steps ? 0 : left_step + 1;
        left_fold <= left_step + 1 == steps ? left_fold + 1 : left_fold;
      end
      if (top_fold < folds && top_fold < top_played + 2) begin
        for (int c = 0; c < C; c++)
          top_bank[((top_fold%2)*STEPS+top_step)*C+c] <= top_word(top_fold, top_step, c);
        top_step <= top_step + 1 == top_steps ? 0 : top_step + 1;
        top_fold <= top_step + 1 == top_steps ? top_fold + 1 : top_fold;
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
  wire plays_last = plays && play_step + 1 == steps;
  int  leaving;  // os: the fold whose sums leave next

  wire int play_rows = rows_of(play_fold, row_folds, high, used);
  wire int play_cols = cols_of(play_fold, row_folds, col_folds, wide, used);
  wire int load_rows = rows_of(load_fold, row_folds, high, used);
  wire int leaving_rows = rows_of(leaving, row_folds, high, used);

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
  function automatic int place(input int fold, input int index, input int c);
    automatic int batch = fold / (row_folds * col_folds);
    automatic int down = holds ? index : row_of(fold) + index;
    automatic int across = col_of(fold) + c;
    if (across >= wide || down >= (kind == 0 ? m : kind == 1 ? m : n)) return -1;
    if (kind == 2) return (batch * m + across) * n + down;
    return (batch * m + down) * n + across;
  endfunction

  always @(posedge clk)
    if (reset) begin
      cycle = 0;
      quiet = 0;
      last_mac = 0;
      last_out = 0;
      for (int i = 0; i < g * m * n; i++) c_mem[i] = 40'sd0;
    end else begin
      if (running) begin
        if (ended != 0) last_mac = cycle;
        quiet = quiet + 1;
        if (plays || loads || pending || gap > 0) quiet = 0;
        for (int i = 0; i < R * C; i++) begin
          one = result[i*$bits(sum_t)+:$bits(sum_t)];
          if (one.valid && i % C < cols_of(32'(one.fold) - 1, row_folds, col_folds, wide, used)) begin
            at = place(32'(one.fold) - 1, 32'(one.index), i % C);
            last_out = cycle;
            if (at >= 0) c_mem[at] = c_mem[at] + one.data;
          end
        end
        cycle = cycle + 1;
      end
    end
  assign idle = finished == folds && quiet > 2 * (R + C);
endmodule
