#!/usr/bin/env python3
"""Checks `quarry mcp` with the official Python client, on this repository.

    pip install mcp==2.3.0
    python3 bench/check_mcp.py target/release/quarry

With the handshake of older clients and with that of newer ones, it lists the tools, validates their schemas
with jsonschema (a dependency of the client), and calls each tool: with valid arguments, whose answers must name code of
this repository within the budget, and with invalid ones, which the tool must refuse with a hint. Then a server of two
trees, one of which is a root of the client, with progress and a canceled call.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

import jsonschema
from mcp import MCPError, StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.types import ListRootsResult, Root

ROOT = Path(__file__).resolve().parent.parent
FILE = "crates/index/src/storage/index_directory.rs"
# The line of a function in it.
LINE = next(n for n, line in enumerate((ROOT / FILE).read_text().splitlines(), 1) if "pub fn named(" in line)
TOOLS = {"search", "callers", "related", "read_unit", "index_status", "context", "outline"}

# Tool, arguments, texts that the answer must contain.
ANSWERED = [
    ("search", {"query": "wait until another process has finished writing the index", "path": "crates/index"}, FILE),
    ("index_status", {}, "up to date"),
    ("search", {"query": "lock the directory", "path": "crates/index", "kinds": ["method"], "k": 3}, "method"),
    ("search", {"query": "IndexDirectory.lock", "languages": ["rust"], "max_tokens": 200}, "IndexDirectory.lock"),
    ("search", {"query": "lock", "path": "crates", "globs": ["index_directory.rs"]}, FILE),
    ("search", {"query": "knitting patterns for woollen mittens"}, "Try"),
    ("search", {"query": "lock the directory", "path": "crates/index", "detail": "full"}, "| "),
    ("context", {"query": "wait until another process has finished writing the index", "path": "crates/index"}, "fn "),
    ("context", {"query": "knitting patterns for woollen mittens"}, "Nothing"),
    ("outline", {"path": "crates/index", "max_tokens": 500}, "crates/index"),
    ("callers", {"name": "IndexDirectory.lock"}, "call"),
    ("related", {"name": "IndexDirectory.lock"}, "Related to "),
    ("related", {"path": FILE, "line": LINE, "kinds": ["callee"]}, "calls:"),
    ("related", {"path": FILE, "line": LINE, "kinds": ["similar"], "k": 3}, "Most similar to " + FILE),
    ("read_unit", {"path": FILE, "name": "IndexDirectory.lock"}, "pub fn lock"),
    ("read_unit", {"path": str(ROOT / FILE), "line": 1, "max_tokens": 200}, FILE),
]

# Tool, arguments, texts that the error must contain; whether the schema accepts the arguments.
REFUSED = [
    ("search", {}, "query", False),
    ("search", {"query": ""}, "no word", True),
    ("search", {"query": "?!"}, "no word", True),
    ("search", {"query": "x", "top_k": 3}, "top_k", False),
    ("search", {"query": "x", "k": 0}, "1 to 50", True),
    ("search", {"query": "x", "kinds": ["class"]}, "`type`", False),
    ("search", {"query": "x", "languages": ["rusty"]}, "rust", True),
    ("search", {"query": "x", "path": "../.."}, "outside", True),
    ("search", {"query": "x", "path": "crates/indx"}, "crates/index", True),
    ("related", {"path": "index_directory.rs", "line": 1, "kinds": ["similar"]}, FILE, True),
    ("related", {"path": FILE, "line": 100_000, "kinds": ["similar"]}, FILE, True),
    ("read_unit", {"path": FILE, "line": 100_000}, "ends with line", True),
    ("read_unit", {"path": FILE, "name": "IndexDirectory.lokc"}, "IndexDirectory.lock", True),
    ("read_unit", {"path": FILE}, "line or name", True),
    ("read_unit", {"path": "/etc/passwd", "line": 1}, "outside", True),
    ("read_unit", {"path": "crates", "line": 1}, "is a directory", True),
]


def expect(condition, *found):
    if not condition:
        raise SystemExit("unexpected: " + " ".join(map(str, found)))


def text_of(result):
    expect([block.type for block in result.content] == ["text"], result)
    return result.content[0].text


async def check_trees(quarry):
    """Two trees, one of them a root of the client."""
    with tempfile.TemporaryDirectory() as directory:
        trees = [Path(directory) / name for name in ("first", "second")]
        for tree in trees:
            tree.mkdir()
            (tree / f"{tree.name}.py").write_text(f"def bake_{tree.name}_bread(oven):\n    return oven.bake()\n")

        async def roots(context):
            return ListRootsResult(roots=[Root(uri=f"file://{trees[1]}")])

        server = StdioServerParameters(
            command=quarry, args=["mcp", str(trees[0])], env={"XDG_CACHE_HOME": str(Path(directory) / "cache")}
        )
        async with Client(stdio_client(server), mode="legacy", list_roots_callback=roots) as client:
            for _ in range(100):
                status = text_of(await client.call_tool("index_status", {}))
                if "Tree second" in status:
                    break
                await asyncio.sleep(0.05)
            expect("Tree second" in status, status)
            found = text_of(await client.call_tool("search", {"query": "bake the second bread"}))
            expect("second.py:1-2 function bake_second_bread" in found, found)
            progress = []

            async def tell(share, total, message):
                progress.append(share)

            await client.call_tool("search", {"query": "bread"}, progress_callback=tell)
            expect(progress == sorted(progress), progress)
            # A call that nobody waits for leaves the server in order.
            task = asyncio.create_task(client.call_tool("search", {"query": "oven"}))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            expect("function" in text_of(await client.call_tool("search", {"query": "oven bread"})), "after")
    print("two trees, roots, progress and a canceled call as expected")


async def check(quarry, index, mode):
    server = StdioServerParameters(command=quarry, args=["mcp", str(ROOT), "--index", index])
    async with Client(stdio_client(server), mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        expect(set(tools) == TOOLS, sorted(tools))
        validators = {}
        for name, tool in tools.items():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            expect(tool.input_schema["additionalProperties"] is False and tool.description, name)
            validators[name] = jsonschema.Draft202012Validator(tool.input_schema)
        for name, arguments, words in ANSWERED:
            expect(validators[name].is_valid(arguments), name, arguments)
            result = await client.call_tool(name, arguments)
            text = text_of(result)
            expect(not result.is_error and words in text, name, arguments, text)
            default = 4000 if name == "context" else 2000
            # About four bytes to a token; context and outline count tokens.
            bytes_per_token = 8 if name in ("context", "outline") else 4
            expect(len(text.encode()) <= bytes_per_token * arguments.get("max_tokens", default), name, arguments, len(text))
        for name, arguments, words, is_valid in REFUSED:
            expect(validators[name].is_valid(arguments) == is_valid, name, arguments)
            result = await client.call_tool(name, arguments)
            expect(result.is_error and words in text_of(result), name, arguments, text_of(result))
        try:
            await client.call_tool("grep", {})
        except MCPError as error:
            expect("search" in str(error), error)
        else:
            expect(False, "an unknown tool was called")
    print(f"{mode}: {len(tools)} tools, {len(ANSWERED)} answers and {len(REFUSED)} refusals as expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quarry", help="the built binary")
    quarry = str(Path(parser.parse_args().quarry).resolve())
    with tempfile.TemporaryDirectory() as directory:
        for mode in ["legacy", "auto"]:
            asyncio.run(asyncio.wait_for(check(quarry, str(Path(directory) / "index"), mode), 300))
    asyncio.run(asyncio.wait_for(check_trees(quarry), 60))


main()
