const std = @import("std");
const cart = @import("cart.zig");

pub fn main() !void {
    const sum = add(1, 2);
    std.debug.print("{d}\n", .{sum});
    var items = cart.Cart.init(allocator);
    defer items.deinit();
    try items.list.append(first().value);
    _ = @as(u8, 1);
    const List = generic(u8)(4);
}
