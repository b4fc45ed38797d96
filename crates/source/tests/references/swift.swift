import Foundation
func total(cart: Cart) -> Int {
    cart.store.save(Item("a"))
    return max(cart.items().count(), 1)
}
