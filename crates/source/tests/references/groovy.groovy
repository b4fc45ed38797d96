import groovy.json.JsonSlurper
import static java.lang.Math.max
import java.util.List as JList
import java.util.*

def start(items) {
    def sum = add(1, 2)
    println "sum ${sum}"
    items.each { print it }
    def cart = new Cart('a')
    cart.items.add(max(sum, 2))
    cart?.load()
    this.stop()
}
