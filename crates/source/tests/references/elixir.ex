defmodule Shop do
  use GenServer
  import Enum, only: [map: 2]
  alias Shop.{Item, Price}
  alias Shop.Cart, as: Basket
  require Logger

  def start(items) do
    sum = add(1, 2)
    Logger.info("sum #{sum}")
    items |> Enum.map(&double/1) |> to_list()
    Basket.new(items).name
    :lists.reverse(items)
    callback.(1)
    GenServer.start_link(__MODULE__, items)
  end
end

defmodule Shop.Web do
  import Shop.{Price, Views}
  use Shop.Live, :view
end
