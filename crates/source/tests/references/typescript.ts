import type { Cart } from './cart';
import fs = require('fs');
function total(cart: Cart): number {
  return sum<number>(cart.store!.items(), new Map<string, number>());
}
const isEmpty = !cart.find<Item>('a')?.size;
