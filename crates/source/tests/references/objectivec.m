#import <Foundation/Foundation.h>
#import "Cart.h"
@import UIKit;

void start(NSArray *items) {
    int sum = add(1, 2);
    Cart *cart = [[Cart alloc] initWithName:@"a"];
    [cart send:@"b" to:@"c"];
    [cart.items addObject:cart];
    NSLog(@"%d", sum);
    dispatch_async(queue, ^{ [cart total]; });
}
