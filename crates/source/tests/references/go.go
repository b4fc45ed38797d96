package shop

import (
	"fmt"
	log "example.com/logging"
	_ "embed"
)

func Total(cart *Cart) int {
	fmt.Println(log.Level())
	return sum(cart.Store.Items(), Map[int](cart))
}

func More() {
	shop.Map[int, string](a, b)
	list.Keys[T]()
	New[shop.Item](1)
	handlers[i](request)
	cancels[next]()
	[]byte("no call")
}
