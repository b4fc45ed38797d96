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
