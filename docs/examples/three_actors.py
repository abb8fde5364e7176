"""Three actors under one supervisor: crash one, and see what becomes of it and of the others."""

import logging

import attrs
import trio

import actors

# Every crash is logged with its traceback. Here the crashes are the plot, so that is left out.
logging.getLogger("actors").setLevel(logging.CRITICAL)


@attrs.frozen
class Order(actors.Ask[str]):
    what: str


class Worker(actors.Actor):
    async def on_start(self) -> None:
        print(f"  {self.ref.name} starts")

    async def receive(self, order: Order) -> str:
        print(f"  {self.ref.name} gets an order: {order.what}")
        if order.what == "crash":
            raise RuntimeError("as you wish")
        return f"{order.what}, done by the {self.ref.name}"

    async def on_stop(self, reason: actors.Exit) -> None:
        print(f"  {self.ref.name} ends: {type(reason).__name__}")


async def main() -> None:
    async with actors.open_actors() as system:
        print("A pantry, a cook who leans on it, a waiter who leans on the cook:")
        kitchen = await system.start_group(
            [actors.ChildSpec(name, Worker) for name in ("pantry", "cook", "waiter")],
            name="kitchen",
            strategy="rest_for_one",
            max_restarts=1,
        )
        cook = kitchen["cook"]  # a reference: good for every incarnation of the cook

        print("The cook crashes with an order waiting. The order is kept, the pantry untouched:")
        cook.tell(Order("crash"))
        cook.tell(Order("soup"))
        print(f"  -> {await cook.ask(Order('bread'))}")
        print(f"  -> {await kitchen['waiter'].ask(Order('the bill'))}")

        print("Once more is one too many. The group stops, last started first, and says why:")
        cook.tell(Order("crash"))
        try:
            await kitchen.wait_stopped()
        except actors.GaveUp as gave_up:
            print(f"  -> {gave_up.args[0]}")


trio.run(main)
