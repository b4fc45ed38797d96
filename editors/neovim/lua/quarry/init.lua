--- Search by meaning: a client of `quarry lsp`. See doc/quarry.txt.

local M = {}

local config = {
  -- The server.
  cmd = { "quarry", "lsp" },
  -- "auto", "fast" or "best"; nil for the setting of the tree.
  quality = nil,
  -- Maximum number of results; nil is what the settings of the tree say.
  limit = nil,
  -- "telescope", "fzf-lua", "snacks", "select" or "quickfix"; nil is the first one that is installed, otherwise "select".
  picker = nil,
  -- The folders that are searched; nil is the repository around the current directory, else that directory.
  folders = nil,
}

--- Whether references and call hierarchies of another server come first.
local YIELDS = {
  ["textDocument/references"] = true,
  ["textDocument/prepareCallHierarchy"] = true,
}

local client_id

--- Changes settings; a server that runs already keeps its own.
function M.setup(options)
  config = vim.tbl_extend("force", config, options or {})
end

local function fail(message)
  vim.notify("quarry: " .. message, vim.log.levels.ERROR)
end

local function folders()
  if config.folders then
    return config.folders
  end
  local current = vim.fn.getcwd()
  local git = vim.fn.finddir(".git", vim.fn.escape(current, " ,\\") .. ";")
  if git == "" then
    return { current }
  end
  return { vim.fn.fnamemodify(git, ":p:h:h") }
end

local function clients_of(buffer)
  if vim.lsp.get_clients then
    return vim.lsp.get_clients({ bufnr = buffer })
  end
  return vim.lsp.buf_get_clients(buffer)
end

--- Has another server of the buffer answer what it can answer better.
local function yield_to_others(client)
  local supports = client.supports_method
  client.supports_method = function(...)
    -- Later versions pass the client first, and the buffer without a table around it.
    local method, where = ...
    if type(method) == "table" then
      method, where = select(2, ...)
    end
    if YIELDS[method] then
      local buffer = type(where) == "table" and where.bufnr or where or vim.api.nvim_get_current_buf()
      for _, other in pairs(clients_of(buffer)) do
        local capabilities = other.server_capabilities or {}
        local provider = method == "textDocument/references" and "referencesProvider" or "callHierarchyProvider"
        if other.id ~= client.id and capabilities[provider] then
          return false
        end
      end
    end
    return supports(...)
  end
end

local function is_file(buffer)
  return vim.api.nvim_buf_is_loaded(buffer)
    and vim.bo[buffer].buftype == ""
    and vim.api.nvim_buf_get_name(buffer) ~= ""
end

local function attach(buffer)
  if client_id and is_file(buffer) then
    vim.lsp.buf_attach_client(buffer, client_id)
  end
end

local function start()
  local spelled = {}
  for _, folder in ipairs(folders()) do
    local path = vim.fn.fnamemodify(folder, ":p"):gsub("(.)/$", "%1")
    table.insert(spelled, { uri = vim.uri_from_fname(path), name = path })
  end
  local server = {
    name = "quarry",
    cmd = config.cmd,
    root_dir = vim.uri_to_fname(spelled[1].uri),
    workspace_folders = spelled,
    init_options = { quality = config.quality },
    on_init = yield_to_others,
    on_exit = function()
      client_id = nil
    end,
  }
  if next(server.init_options) == nil then
    server.init_options = vim.empty_dict()
  end
  local is_old = vim.fn.has("nvim-0.11") == 0
  local ok, id = pcall(is_old and vim.lsp.start_client or vim.lsp.start, server, { attach = false })
  if not ok or not id then
    return nil
  end
  client_id = id
  -- What is not saved is ranked as it stands.
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    attach(buffer)
  end
  local group = vim.api.nvim_create_augroup("quarry", {})
  vim.api.nvim_create_autocmd({ "BufReadPost", "BufNewFile", "BufFilePost" }, {
    group = group,
    callback = function(event)
      attach(event.buf)
    end,
  })
  return id
end

--- The running server, which is started if there is none.
function M.client()
  local client = client_id and vim.lsp.get_client_by_id(client_id)
  if client then
    return client
  end
  local id = start()
  return id and vim.lsp.get_client_by_id(id)
end

--- Has the server run a command; `done` gets its result, unless it fails.
function M.execute(command, argument, done)
  local client = M.client()
  if not client then
    return fail("cannot start " .. table.concat(config.cmd, " ") .. "; is it installed and on the PATH?")
  end
  local params = { command = command, arguments = argument and { argument } or {} }
  local function handler(problem, result)
    if problem then
      return fail(problem.message or tostring(problem))
    end
    done(result)
  end
  if vim.fn.has("nvim-0.11") == 1 then
    client:request("workspace/executeCommand", params, handler)
  else
    client.request("workspace/executeCommand", params, handler)
  end
end

local PICKERS = {
  {
    "telescope",
    module = "telescope.builtin",
    show = function(telescope, title)
      telescope.quickfix({ prompt_title = title })
    end,
  },
  {
    "fzf-lua",
    module = "fzf-lua",
    show = function(fzf)
      fzf.quickfix()
    end,
  },
  {
    "snacks",
    module = "snacks",
    show = function(snacks)
      snacks.picker.qflist()
    end,
  },
}

local function select_item(items, title)
  vim.ui.select(items, {
    prompt = title,
    format_item = function(item)
      return ("%s:%d  %s"):format(vim.fn.fnamemodify(item.filename, ":~:."), item.lnum, item.text)
    end,
  }, function(_, number)
    if number then
      vim.cmd("cc " .. number)
    end
  end)
end

local function show(items, title)
  vim.fn.setqflist({}, " ", { title = title, items = items })
  if #items == 0 then
    return vim.notify("quarry: nothing found")
  end
  for _, picker in ipairs(PICKERS) do
    if config.picker == picker[1] or config.picker == nil then
      local ok, module = pcall(require, picker.module)
      if ok then
        return picker.show(module, title)
      elseif config.picker then
        return fail(picker[1] .. " is not installed")
      end
    end
  end
  if config.picker == "quickfix" then
    vim.cmd("copen")
  else
    select_item(items, title)
  end
end

local function first_line(text)
  return vim.trim((text or ""):match("^[^\n]*") or "")
end

local function items_of_results(answer)
  local items = {}
  for _, result in ipairs(answer.results) do
    local name = result.name ~= "" and result.name or first_line(result.snippet)
    table.insert(items, {
      filename = vim.uri_to_fname(result.uri),
      lnum = result.start_line,
      end_lnum = result.end_line,
      col = 1,
      text = ("%s %s"):format(result.kind, name),
    })
  end
  return items
end

--- The command of the server.
function M.command()
  return config.cmd
end

local FILTERS = { kind = "kind", lang = "language", language = "language", glob = "glob", quality = "quality", limit = "limit" }

--- Names of filters for completion.
function M.filter_names()
  local names = {}
  for name in pairs(FILTERS) do
    table.insert(names, name .. "=")
  end
  table.sort(names)
  return names
end

--- A query and the filters before it: `lang=rust glob=src/** retry with backoff`. A filter may be repeated.
function M.parse(text)
  local filters = {}
  while true do
    local name, value, rest = text:match("^%s*(%a+)=(%S+)%s*(.*)$")
    local filter = name and FILTERS[name]
    if not filter then
      return vim.trim(text), filters
    elseif filter == "limit" then
      filters.limit = tonumber(value)
    elseif filter == "quality" then
      filters.quality = value
    else
      filters[filter] = filters[filter] or {}
      table.insert(filters[filter], value)
    end
    text = rest
  end
end

--- Finds code by a description or a symbol. `filters` may have `language`, `glob`, `kind`, `folder`, `quality` and
--- `limit`. Without a query, asks for one.
function M.search(query, filters)
  if not query or query == "" then
    return vim.ui.input({ prompt = "Search code: " }, function(text)
      if text and text ~= "" then
        M.search(text, filters)
      end
    end)
  end
  local asked = vim.tbl_extend("force", { query = query, limit = config.limit }, filters or {})
  M.execute("quarry.search", asked, function(answer)
    local doubt = answer.confident == false and " (no clear match)" or ""
    show(items_of_results(answer), query .. doubt)
  end)
end

--- The position at the cursor; in a quickfix window, that of its entry.
local function here()
  local buffer, line = vim.api.nvim_get_current_buf(), vim.api.nvim_win_get_cursor(0)[1]
  if vim.bo.buftype == "quickfix" then
    local window = vim.fn.getwininfo(vim.api.nvim_get_current_win())[1]
    local items = window.loclist == 1 and vim.fn.getloclist(0) or vim.fn.getqflist()
    local item = items[line] or { bufnr = 0 }
    buffer, line = item.bufnr, math.max(item.lnum or 1, 1)
    if buffer > 0 then
      vim.fn.bufload(buffer)
    end
  end
  if buffer == 0 or not is_file(buffer) then
    fail("this is not a position in a file; place the cursor in code, or on an entry of a quickfix window")
    return nil
  end
  M.client()
  attach(buffer)
  return { uri = vim.uri_from_bufnr(buffer), line = line - 1 }
end

--- Finds code similar to the code at the cursor.
function M.similar()
  local position = here()
  if not position then
    return
  end
  local asked = vim.tbl_extend("force", position, { limit = config.limit })
  M.execute("quarry.similar", asked, function(answer)
    show(items_of_results(answer), "Similar to " .. answer.similar_to.name)
  end)
end

--- Has the server run a command on a name, or on the definition at the cursor.
local function execute_on(command, name, done)
  local subject = name and name ~= "" and { name = name } or here()
  if subject then
    M.execute(command, subject, done)
  end
end

--- Lists the callers of a name, or of the definition at the cursor.
function M.callers(name)
  execute_on("quarry.callers", name, function(answer)
    local items = {}
    for _, site in ipairs(answer.callers) do
      local doubt = site.certain and "" or "  (matched by name only)"
      table.insert(items, { filename = vim.uri_to_fname(site.uri), lnum = site.line, col = 1, text = site.text .. doubt })
    end
    show(items, "Callers of " .. answer.query)
  end)
end

--- Lists what a name, or the definition at the cursor, calls.
function M.callees(name)
  execute_on("quarry.callees", name, function(answer)
    local items = {}
    for _, definition in ipairs(answer.definitions) do
      for _, callee in ipairs(definition.callees) do
        for _, target in ipairs(callee.definitions) do
          local text = ("%s %s"):format(target.kind, target.name)
          table.insert(items, { filename = vim.uri_to_fname(target.uri), lnum = target.start_line, col = 1, text = text })
        end
      end
    end
    show(items, "Called by " .. answer.query)
  end)
end

return M
