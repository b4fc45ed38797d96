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
