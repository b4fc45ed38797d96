import Foundation
func total(cart: Cart) -> Int {
    cart.store.save(Item("a"))
    return max(cart.items().count(), 1)
}
func more() {
    let cart = Cart<Item>(1)
    wait(for: .seconds(2))
    let sum = UInt8(3) + price(4) * cart.tax(5)
    #expect(total(cart) == 6)
}
