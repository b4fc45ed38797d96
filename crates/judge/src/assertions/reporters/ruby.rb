# Reports the assertions that a program evaluates. Ruby loads this before the program.
lambda do
  nonce = "@NONCE@"
  left = Integer("@LIMIT@")
  stream = nil
  ["self", Process.ppid].each do |process|
    place = "/proc/#{process}/fd/#{ENV["QUARRY_REPORT"]}"
    begin
      stream ||= IO.for_fd(IO.sysopen(place, File::WRONLY)) if File.pipe?(place)
    rescue SystemCallError
      nil
    end
  end
  tell = lambda do |kind, line|
    left -= 1
    next if left < -1 || stream.nil?
    begin
      stream.syswrite("#{nonce} #{left < 0 ? "m" : kind} #{line}\n")
    rescue SystemCallError, IOError
      nil
    end
  end
  # A method that is not called, or an iteration that nobody begins, is never false.
  cannot_fail = ->(value) { [Proc, Method, UnboundMethod, Enumerator, Module].any? { |kind| kind === value } }
  Kernel.module_eval do
    define_method(:quarry_report_t) do |line, value, _end|
      tell.call(value ? "h" : "f", line) unless cannot_fail.call(value)
      value
    end
    define_method(:quarry_report_v) { |line, value, _end| tell.call("x", line) if cannot_fail.call(value); value }
    define_method(:quarry_report_n) { |line, value, _end| tell.call(value ? "f" : "h", line); value }
    define_method(:quarry_report_b) { |line| tell.call("b", line); line }
    define_method(:quarry_report_e) { |line, value, _end| tell.call("H", line); value }
    define_method(:quarry_report_z) { 0 }
    private :quarry_report_t, :quarry_report_v, :quarry_report_n, :quarry_report_b, :quarry_report_e, :quarry_report_z
  end
  tell.call("s", 0)
end.call
