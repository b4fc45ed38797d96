using System;
using static System.Math;
using Text = System.Text.StringBuilder;
class Cart {
    int Total() {
        var items = new List<int>();
        items.Add(Parse<int>("1"));
        this.store?.Save(items);
        return Max(items.First<int>(), new Shop.Item().Price());
    }
}
class Shop : Base {
    Shop(int count) : base(count) {
        this.Add(1);
        base.Add<int>(2);
        this?.Sell(new Shop.Box<int>(3));
    }
    Shop() : this(4) {}
}
