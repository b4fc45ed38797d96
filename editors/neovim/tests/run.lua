-- Tests the plugin with a server: QUARRY=path nvim --headless -u NONE -i NONE -c 'luafile editors/neovim/tests/run.lua'

local source = debug.getinfo(1, "S").source:sub(2)
local plugin = vim.fn.fnamemodify(source, ":p:h:h")
local directory = vim.fn.resolve(vim.fn.tempname())
vim.env.XDG_CACHE_HOME = directory .. "/cache"
vim.env.XDG_CONFIG_HOME = directory .. "/config"
vim.opt.runtimepath:prepend(plugin)
vim.cmd("runtime plugin/quarry.lua")
vim.o.hidden = true

local function write(path, lines)
  path = directory .. "/tree/" .. path
  vim.fn.mkdir(vim.fn.fnamemodify(path, ":h"), "p")
  vim.fn.writefile(lines, path)
  return path
end

local net = write("net.py", {
  "def connect(host):",
  '    """Open a socket to a host."""',
  "    return dial(host)",
  "",
  "",
  "def dial(host):",
  "    return host.number()",
})
write("main.py", { "from net import connect", "", "", "def main(name):", "    return connect(name)" })
vim.fn.mkdir(directory .. "/tree/.git")
vim.cmd("cd " .. directory .. "/tree")

local help = directory .. "/doc"
vim.fn.mkdir(help)
vim.fn.writefile(vim.fn.readfile(plugin .. "/doc/quarry.txt"), help .. "/quarry.txt")
vim.cmd("helptags " .. help)

local quarry = require("quarry")
quarry.setup({ cmd = { vim.env.QUARRY or "quarry", "lsp" } })

local notices, selected = {}, nil
vim.notify = function(message)
  table.insert(notices, message)
end
vim.ui.select = function(items, options, done)
  selected = vim.tbl_map(options.format_item, items)
  done(items[1], 1)
end

--- Runs a command, and waits until there is a quickfix list with this title.
local function quickfix(command, title)
  notices = {}
  vim.fn.setqflist({}, "f")
  vim.cmd(command)
  local is_there = vim.wait(60000, function()
    return vim.fn.getqflist({ title = 0 }).title:find(title, 1, true) == 1 or #notices > 0
  end, 20)
  assert(is_there, "no quickfix list for " .. command)
  assert(#notices == 0, vim.inspect(notices))
  return vim.tbl_map(function(item)
    local name = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(item.bufnr), ":t")
    return ("%s:%d %s"):format(name, item.lnum, item.text)
  end, vim.fn.getqflist())
end

local function equal(found, expected)
  assert(vim.deep_equal(found, expected), vim.inspect(found) .. "\nexpected " .. vim.inspect(expected))
end

local tests = {}

function tests.a_search_fills_the_quickfix_list_and_opens_what_is_selected()
  local items = quickfix("QuarrySearch open a socket", "open a socket")
  equal(items[1], "net.py:1 function connect")
  equal(selected[1], "net.py:1  function connect")
  equal(vim.api.nvim_buf_get_name(0), net)
end

function tests.calls_and_similar_code_are_found_at_the_cursor()
  vim.cmd("edit " .. net)
  vim.api.nvim_win_set_cursor(0, { 3, 0 })
  equal(quickfix("QuarryCallers", "Callers of net.py:3"), { "main.py:5 return connect(name)" })
  equal(quickfix("QuarryCallers connect", "Callers of connect"), { "main.py:5 return connect(name)" })
  vim.cmd("edit " .. net)
  vim.api.nvim_win_set_cursor(0, { 3, 0 })
  equal(quickfix("QuarryCallees", "Called by net.py:3"), { "net.py:6 function dial" })
  vim.cmd("edit " .. net)
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  assert(#quickfix("QuarrySimilar", "Similar to connect") > 0)
end

function tests.in_a_quickfix_window_its_entry_counts()
  vim.cmd("silent! %bwipeout")
  -- The quickfix list is the one that a command fills: in a test, that of the window is a location list.
  vim.fn.setloclist(0, { { filename = net, lnum = 6, text = "dial" } })
  vim.cmd("lopen")
  equal(quickfix("QuarryCallers", "Callers of net.py:6"), { "net.py:3 return dial(host)" })
  vim.cmd("edit " .. net)
  vim.fn.setloclist(0, { { filename = net, lnum = 6, text = "dial" } })
  vim.cmd("lopen")
  assert(#quickfix("QuarrySimilar", "Similar to dial") > 0)
  vim.cmd("silent! lclose")
  vim.fn.setqflist({ { text = "no file" } })
  vim.cmd("copen")
  notices = {}
  vim.cmd("QuarrySimilar")
  assert(notices[1]:find("not a position in a file", 1, true), vim.inspect(notices))
  vim.cmd("cclose")
end

function tests.a_search_has_filters()
  equal({ quarry.parse("lang=rust glob=src/** glob=!x limit=3 retry a=b") }, {
    "retry a=b",
    { language = { "rust" }, glob = { "src/**", "!x" }, limit = 3 },
  })
  equal({ quarry.parse("x=y z") }, { "x=y z", {} })
  for _, item in ipairs(quickfix("QuarrySearch glob=main.py connect", "connect")) do
    assert(vim.startswith(item, "main.py:"), item)
  end
  equal(vim.fn.getcompletion("QuarrySearch gl", "cmdline"), { "glob=" })
end

function tests.health_names_the_program()
  vim.cmd("checkhealth quarry")
  local report = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
  assert(report:find("quarry 0.", 1, true), report)
  vim.cmd("bwipeout!")
end

function tests.a_buffer_is_ranked_as_it_stands()
  vim.cmd("edit " .. net)
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { "def bake_bread(oven):", "    return oven.bake()", "", "" })
  equal(quickfix("QuarrySearch bake bread", "bake bread")[1], "net.py:1 function bake_bread")
  vim.cmd("edit! " .. net)
end

function tests.filters_and_symbols_reach_the_server()
  local answer
  quarry.execute("quarry.search", { query = "connect", glob = "main.py" }, function(found)
    answer = found
  end)
  assert(vim.wait(60000, function()
    return answer ~= nil
  end, 20))
  for _, result in ipairs(answer.results) do
    equal(result.path, "main.py")
  end
  local found = vim.lsp.buf_request_sync(0, "workspace/symbol", { query = "open a socket" }, 60000)
  local _, first = next(found)
  equal(first.result[1].name, "connect")
end

function tests.errors_are_told()
  vim.cmd("edit " .. directory .. "/tree/main.py")
  vim.api.nvim_win_set_cursor(0, { 2, 0 })
  notices = {}
  vim.cmd("QuarryCallers")
  assert(vim.wait(60000, function()
    return #notices > 0
  end, 20))
  assert(notices[1]:find("name a line in one", 1, true), notices[1])
end

function tests.an_installed_picker_shows_the_quickfix_list()
  local shown
  package.loaded["telescope.builtin"] = {
    quickfix = function(options)
      shown = { options.prompt_title, vim.fn.getqflist({ size = 0 }).size }
    end,
  }
  local items = quickfix("QuarrySearch open a socket", "open a socket")
  equal(shown, { vim.fn.getqflist({ title = 0 }).title, #items })
  package.loaded["telescope.builtin"] = nil
  for name, module in pairs({ ["fzf-lua"] = "fzf-lua", snacks = "snacks" }) do
    shown = nil
    local function show()
      shown = name
    end
    package.loaded[module] = { quickfix = show, picker = { qflist = show } }
    quarry.setup({ picker = name })
    quickfix("QuarrySearch open a socket", "open a socket")
    equal(shown, name)
    package.loaded[module] = nil
  end
  quarry.setup({ picker = "quickfix" })
  quickfix("QuarrySearch open a socket", "open a socket")
  equal(vim.bo.buftype, "quickfix")
  vim.cmd("cclose")
end

function tests.another_server_comes_first()
  local client = quarry.client()
  local function supports(method)
    local buffer = vim.api.nvim_get_current_buf()
    if vim.fn.has("nvim-0.11") == 1 then
      return client:supports_method(method, buffer)
    end
    return client.supports_method(method, { bufnr = buffer })
  end
  vim.cmd("edit " .. net)
  assert(supports("textDocument/references"))
  local other = { id = client.id + 1, server_capabilities = { referencesProvider = true } }
  local get = vim.lsp.get_clients and "get_clients" or "buf_get_clients"
  local original = vim.lsp[get]
  vim.lsp[get] = function()
    return { client, other }
  end
  assert(not supports("textDocument/references"))
  assert(supports("textDocument/prepareCallHierarchy"))
  assert(supports("workspace/symbol"))
  vim.lsp[get] = original
end

local names = vim.tbl_keys(tests)
table.sort(names)
local n_failed = 0
for _, name in ipairs(names) do
  local ok, problem = xpcall(tests[name], debug.traceback)
  io.stdout:write(("%s %s\n"):format(ok and "ok    " or "FAILED", name))
  if not ok then
    n_failed = n_failed + 1
    io.stdout:write(problem .. "\n")
  end
end
io.stdout:write(("%d tests, %d failed\n"):format(#names, n_failed))
vim.fn.delete(directory, "rf")
vim.cmd(n_failed > 0 and "cquit 1" or "qall!")
