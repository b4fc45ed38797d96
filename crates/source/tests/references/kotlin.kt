import kotlin.math.max
import java.io.File as Path
import shop.items.*
fun total(cart: Cart): Int {
    val list = listOf<Int>(1, 2)
    cart.store.save(list)
    return max(list.map { it.price() }.sum(), Item("a").size())
}
