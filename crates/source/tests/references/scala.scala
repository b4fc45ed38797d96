import scala.math.max
import shop.cart.{Cart, Item => Thing}
import shop.tools._
object Shop {
  def total(cart: Cart): Int = {
    cart.store.save(new Thing("a"))
    max(cart.items.map(price(1)), List.empty[Int](2).size())
  }
}
class Store extends Base[Int](1) with Named {
  val names = items map name
  val views = new shop.View.Zip[Int](names, !conf.get[Boolean]("key"))
}
