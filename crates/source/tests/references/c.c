#include <stdio.h>
#include "cart.h"
int total(struct cart *cart) {
    printf("%d\n", cart->count(cart));
    return cart->ops.sum(cart) + add(1, 2);
}
