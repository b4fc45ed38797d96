import kotlin.math.max
import java.io.File as Path
import shop.items.*
fun total(cart: Cart): Int {
    val list = listOf<Int>(1, 2)
    cart.store.save(list)
    return max(list.map { it.price() }.sum(), Item("a").size())
}
class Shop : Base(1), Named {
    constructor() : this(2)
    val cart = Cart<Item>(3) { fill() }
    val sizes = cart.map<Int>(4) to one
    val a = object : Listener<Cart>(5) {}
}
