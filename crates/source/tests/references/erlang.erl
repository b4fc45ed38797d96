-module(cart).
-import(lists, [map/2, foldl/3]).
-include("cart.hrl").
-include_lib("kernel/include/logger.hrl").

start(Items) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Items, []),
    Sum = total(Items),
    ?LOG_INFO("sum ~p", [Sum]),
    Callback = fun add/2,
    Callback(1, 2),
    map(fun(X) -> ?MODULE:double(X) end, Items).
